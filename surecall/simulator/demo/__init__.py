"""The same bent replies for several loops, side by side, judged by what really ran."""
