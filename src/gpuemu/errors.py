"""Every exception that gpuemu raises on purpose, with the exit code that the command line gives it.

    GpuemuError                        3   infrastructure or our own failure
    ├── UsageError                     2   the user asked for something that cannot be done
    │   ├── TargetError                2   a kernel target cannot be found or imported
    │   ├── UnknownOpError             2   no op of that name
    │   ├── ConfigurationError         2   a configuration file or option is wrong
    │   └── OpDefinitionError          2   an op's declaration contradicts itself
    ├── UnsupportedEnvironmentError    3   a needed package, version or device is missing
    ├── StoreError                     3   the run store cannot be read or written
    └── CandidateRefusedError          -   a wrapper's call cannot be served on this tier (`unsupported`)

A message is one line that says what is wrong, where, and how to mend it.
"""

from __future__ import annotations

EXIT_PASSED = 0
EXIT_CANDIDATE_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERNAL = 3
EXIT_NOTHING_ESTABLISHED = 4
EXIT_INTERRUPTED = 130


class GpuemuError(Exception):
    """Base of all gpuemu errors; `exit_code` is what the command line ends with."""

    exit_code = EXIT_INTERNAL


class UsageError(GpuemuError):
    """The request cannot be carried out as asked; the message says how to mend it."""

    exit_code = EXIT_USAGE


class TargetError(UsageError):
    """A kernel target (corpus name, file.py::function, package.module:function) cannot be loaded."""


class UnknownOpError(UsageError):
    """No op of that name is registered."""


class ConfigurationError(UsageError):
    """A configuration key or value is not understood."""


class OpDefinitionError(UsageError):
    """An op's declaration is inconsistent (unknown dim, bad expression, duplicate name)."""


class UnsupportedEnvironmentError(GpuemuError):
    """A package, version or device that this request needs is not there."""


class StoreError(GpuemuError):
    """The run store is missing, damaged or cannot be written."""


class CandidateRefusedError(GpuemuError):
    """A candidate asked for something that this tier cannot answer; the case becomes `unsupported`."""
