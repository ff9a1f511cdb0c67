import importlib.util

collect_ignore = [] if importlib.util.find_spec("torch") else ["test_vae_training.py"]
