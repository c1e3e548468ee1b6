# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym adversary``."""

from __future__ import annotations

import argparse

from bbrgym.cli.terminal import (
    BarState,
    advice_on_interrupt,
    new_run_dir,
    print_results,
    print_run_folder,
    progress_bar,
    take_run_dir,
)
from bbrgym.config.overrides import key_of, override_of
from bbrgym.errors import ConfigError
from bbrgym.evaluate.adversary.adversary_settings import Adversary, parse_adversary
from bbrgym.evaluate.adversary.search import (
    AdversaryFolder,
    SearchProgress,
    describe_loss,
    describe_network,
    search_adversary,
)
from bbrgym.scenario.distribution import is_distribution, load_distribution

DESCRIPTION = """\
Searches a distribution, in the twin, for networks where an entrant (a variant, or agent=RUN) loses most against a
reference, or, with goal=harm, does most harm to others; scores the worst ones again with other seeds, runs them in
world replay, and keeps them as scenario files. resume=true goes on with the search that output_dir holds.

examples:
  bbrgym adversary variant=bbq scenario=wan_mix budget=600 output_dir=runs/against-bbq
  bbrgym adversary agent=runs/mine reference=library-best:runs/portfolio scenario=wan_mix
  bbrgym adversary variant=bbr3 goal=harm scenario=harm_grid budget=60 seeds=1 check_seeds=1 keep=1 replay=null
  bbrgym adversary variant=bbr-pg 'steps={count: 8, ratio: 4.0}' replay=null
  bbrgym evaluate scenario=runs/against-bbq/cases/against-bbq-1.yaml 'variants=[bbr,bbq]'
  bbrgym train 'scenario=[wan_mix,runs/against-bbq/found.yaml]'
"""

MODELS = (Adversary,)


def run(options: argparse.Namespace) -> None:
    """Search, and print the kept networks."""
    config = dict(options.config)
    given, resume = take_run_dir(config, options.run_dir)
    source = config.pop("scenario")
    if not is_distribution(source):
        raise ConfigError(f"scenario: is {source.get('name', source)!r}, a single network, expected a distribution")
    distribution, settings = load_distribution(source), parse_adversary(config)
    folder = AdversaryFolder(given or new_run_dir(f"against-{settings.variant}"))
    again = [text for text in options.overrides if key_of(text) not in ("output_dir", "resume", "hydra.run.dir")]
    again += [override_of("output_dir", str(folder.path)), "resume=true"]
    advice = advice_on_interrupt(folder, "adversary", *again)
    with advice, folder.opened(resume=resume), progress_bar(_shown) as show:
        cases = search_adversary(distribution, settings, folder, show)
    for case in cases:
        reference = settings.reference if settings.goal == "score" else None
        lines = describe_loss(case, settings.agent or settings.variant, reference, settings.replay)
        print_results(f"{case.network.name}: {describe_network(case.network)}", *(f"  {line}" for line in lines))
    if not cases:
        print_results("no network was found on which the entrant loses")
    print_run_folder(folder.path, has_page=False)


def _shown(progress: SearchProgress) -> BarState:
    stage = f"{progress.stage} {progress.done}/{progress.total}"
    return BarState(progress.done, progress.total, stage, f"largest loss {progress.loss:.2f}")
