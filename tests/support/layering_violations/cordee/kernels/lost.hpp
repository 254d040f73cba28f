// A folder that is in no layer.
