"""Charts as text: data with a min/max pyramid, scales, smoothing, a canvas of cells, one pure `draw`."""
