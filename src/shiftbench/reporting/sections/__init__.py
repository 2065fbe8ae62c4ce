"""The sections of a page, a file for each; `page.SECTIONS` has their order and what they are about."""
