-- SPDX-License-Identifier: MIT
--- Training on many processes: the ranks of one job, what they do together.

local late = require 'ridge.late'

return late.namespace({}, {
  init = { 'ridge.world', 'init' },
  all_reduce = { 'ridge.dist.collective', 'all_reduce' },
  broadcast = { 'ridge.dist.collective', 'broadcast' },
  all_gather = { 'ridge.dist.collective', 'all_gather' },
  reduce_scatter = { 'ridge.dist.collective', 'reduce_scatter' },
  barrier = { 'ridge.dist.collective', 'barrier' },
  same = { 'ridge.dist.same', 'same' },
  Sharded = { 'ridge.dist.sharded', 'Sharded' },
  DataParallel = { 'ridge.dist.parallel', 'DataParallel' },
}, 'dist')
