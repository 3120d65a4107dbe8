"""The page that shows a timeline."""
