-- SPDX-License-Identifier: MIT
--- Nets with fewer weights: masks that stay, smaller layers, and what each gains and costs.

local late = require 'ridge.late'

return late.namespace({}, {
  magnitude = { 'ridge.prune.magnitude', 'magnitude' },
  Scheduler = { 'ridge.prune.scheduler', 'Scheduler' },
  iterative = { 'ridge.prune.iterative', 'iterative' },
  importance = { 'ridge.prune.importance', 'importance' },
  shrink = { 'ridge.prune.shrink', 'shrink' },
  compact = { 'ridge.prune.compact', 'compact' },
  analyze = { 'ridge.prune.analyze', 'analyze' },
}, 'prune')
