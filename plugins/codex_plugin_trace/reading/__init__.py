"""Reading of traces and recorded sessions as a timeline."""
