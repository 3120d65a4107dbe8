from __future__ import annotations

import subprocess
import sys


def test_a_new_thread_loads_nothing_that_only_reading_needs() -> None:
    program = """
import sys, time
from codex_plugin_rollout import codex_thread_stores
from codex_framework import ThreadMeta
(store,) = codex_thread_stores()
meta = ThreadMeta(id="t", cwd="/", created_at=time.time(), originator="o", source="exec", cli_version="1", model_provider="p")
store.create(meta, "/nowhere")
heavy = {"cattrs", "httpx", "asyncio", "subprocess", "datetime", "codex_plugin_rollout.reconstruction", "codex_plugin_rollout.git"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_contexts_plugin_loads_nothing_heavy() -> None:
    program = """
import sys
import codex_framework.contract.hookspecs
before = set(sys.modules)
from codex_plugin_context import codex_context_sources
print([source.name for source in codex_context_sources()])
print(sorted(name for name in set(sys.modules) - before if not name.startswith("codex_")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names, others = done.stdout.splitlines()
    assert names == "['permissions', 'developer_instructions', 'agents_md', 'environment']"
    assert others == "[]"
