"""JupyterHub's settings for this course on one machine: `make hub` starts it, docs/jupyterhub.md says how a class works on it.

Homes, nbgrader's exchange and the hub's own files lie in the folder named by HUB_HOME, which is hub/ in the clone unless
said otherwise; what grading writes lies where nbgrader_config.py in grader/ says. HUB_INSTRUCTORS names who grades.
"""

import os
import stat
import sys
from importlib.util import find_spec
from pathlib import Path

from jupyterhub.spawner import SimpleLocalProcessSpawner

import grader
import make
from grader.judging import twists
from grader.nbgrader_config import scripts_on_path
from strides import lab

HERE = Path(__file__).resolve().parent
HOME = Path(os.environ.get("HUB_HOME") or make.ROOT / "hub").resolve()
EXCHANGE = HOME / "exchange"
INSTRUCTORS = os.environ.get("HUB_INSTRUCTORS", "instructor").split(",")

c = get_config()  # noqa: F821  # pyright: ignore[reportUndefinedVariable] - JupyterHub's

# For a trial: everybody gets in under any name, and all servers run as one account. docs/jupyterhub.md names the lines for a class.
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.spawner_class = "simple"
c.JupyterHub.bind_url = "http://127.0.0.1:8000"
c.SimpleLocalProcessSpawner.home_dir_template = str(HOME / "homes" / "{username}")

# Its files. Its proxy is the `configurable-http-proxy` of this environment, in Python, which needs no npm; npm's is called the same.
# It ends requests after 20 s unless told otherwise, and so the page that waits for a server that starts slowly.
scripts_on_path()
HOME.mkdir(parents=True, exist_ok=True)
c.JupyterHub.db_url = f"sqlite:///{HOME / 'jupyterhub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(HOME / "cookie_secret")
c.ConfigurableHTTPProxy.command = ["configurable-http-proxy", "--proxy-timeout=3600000"]  # ms
c.ConfigurableHTTPProxy.pid_file = str(HOME / "proxy.pid")

# nbgrader wants an exchange to which everybody can write: it makes folders in it that are safer.
EXCHANGE.mkdir(exist_ok=True)
EXCHANGE.chmod(stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)


def role(spawner) -> None:
    """Configure a user's server: a student's opens at home; an instructor's in the clone, with the grader's settings."""
    settings = [HERE, lab.SETTINGS]
    told = {"HUB_EXCHANGE": str(EXCHANGE)}
    if spawner.user.name in INSTRUCTORS:
        spawner.notebook_dir = str(make.ROOT)
        settings.append(make.ROOT / "grader")
        told |= {"COURSE": str(make.ROOT), "GRADER_HOME": str(grader.home())}
    elif isinstance(spawner, SimpleLocalProcessSpawner):
        told["HUB_STUDENT"] = spawner.user.name
    if (asked := twists.of_student(grader.home(), spawner.user.name)).units:  # docs/instructors.md, tasks of one's own
        told["COURSE_TWISTS"] = asked.code
    spawner.environment = told | {"JUPYTER_CONFIG_PATH": os.pathsep.join(map(str, settings))}


c.Spawner.pre_spawn_hook = role
c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
c.Spawner.default_url = "/lab"
c.Spawner.start_timeout = c.Spawner.http_timeout = 300  # seconds: before a lesson many servers start at once
c.Spawner.args = ["--allow-root"] * (os.geteuid() == 0)

# What nobody uses goes, and a lesson's start is a queue: docs/jupyterhub.md says what a student takes.
c.Spawner.args += ["--MappingKernelManager.cull_idle_timeout=1800", "--MappingKernelManager.cull_interval=300"]
c.Spawner.mem_limit = os.environ.get(
    "HUB_MEMORY", "2G"
)  # where the spawner holds a server to it: plain processes are not
c.JupyterHub.concurrent_spawn_limit = 20
if find_spec("jupyterhub_idle_culler"):
    culling = [sys.executable, "-m", "jupyterhub_idle_culler", "--timeout=3600"]
    c.JupyterHub.services = [{"name": "culler", "command": culling}]
    scopes = ["list:users", "read:users:activity", "read:servers", "delete:servers"]
    c.JupyterHub.load_roles = [{"name": "culler", "scopes": scopes, "services": ["culler"]}]
