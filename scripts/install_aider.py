"""Installs aider into weft's cache folder, as weft does on first use; does nothing when it is there."""

import asyncio
import os

from weft.integrations.aider.install import install_aider

if __name__ == "__main__":
    print(asyncio.run(install_aider(os.environ, print)).place)
