"""The parts of bench/compare: what is run (libraries), how (running, busy), what it means (figures, goals), how it is shown (report, plot)."""
