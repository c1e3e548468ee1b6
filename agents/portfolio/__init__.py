# SPDX-License-Identifier: GPL-2.0-only
"""Agent `portfolio`: identifies the path for some seconds, then holds the setting of a small library that fits it best.

A training has these stages, each with a share of the steps:

    search           the best setting of each of some draws
    cross            the score of every setting found on other draws
    refine           the best of these on more draws, and children of the settings that cover these best, turn by turn
    library          the K settings that cover these draws best together
    identification   more draws: the path identified as the agent will, then each setting of the library tried
    fit              networks from what was observed to the score of each setting of the library
    reselect         more draws, if it shall choose again: the agent so far acts for a while, then each setting is
                     tried, and the fit done again by all examples, turn by turn
"""
