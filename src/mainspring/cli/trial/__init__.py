"""Real installations for a short time: what `mainspring demo` and `mainspring bench` run on."""
