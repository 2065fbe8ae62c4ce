"""Items to images to tensors: decode without torch, augment with it."""
