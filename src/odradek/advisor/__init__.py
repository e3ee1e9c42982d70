"""Questions about a controller, answered by its own steps on a copy: what-if, why, the impact of a shutdown, plans, replays."""
