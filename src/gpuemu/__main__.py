"""`python -m gpuemu` is the command line `gpuemu`."""

from gpuemu.cli.app import main

if __name__ == "__main__":
    main()
