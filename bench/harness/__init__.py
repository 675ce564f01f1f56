"""The bench harness: private servers, contestants in their own environments, jobs and reports."""
