-- SPDX-License-Identifier: MIT
--- What a run of a sweep would cost, found out by declaring it in a transaction that is undone.

local canonical = require 'ridge.store.canonical'
local choices = require 'ridge.sweep.choices'
local identity = require 'ridge.store.identity'
local place = require 'ridge.store.place'
local progress = require 'ridge.sweep.progress'
local queue = require 'ridge.store.queue'
local reuse = require 'ridge.store.reuse'
local store = require 'ridge.store'

local M = {}

-- Everything of it in a transaction that ends in this.
local UNDONE = {}

local function look(st, wanted, opt, facts)
  choices.before(st, opt.lab, opt.choices) -- a part of the environment
  local ids = st:environment(opt.lab.facts())
  local sweep, made = identity.ensure(st, wanted, opt.new)
  facts.reused = opt.reuse and reuse.take(st, sweep.id, ids.env_id, opt.any_name, opt.shard)
    or 0
  local counts = queue.counts(st, sweep.id, opt.shard)
  facts.to_run = (counts.pending or 0) + (counts.running or 0)
  facts.done = counts.total - facts.to_run - facts.reused
  facts.elsewhere = queue.counts(st, sweep.id).total - counts.total
  facts.trials, facts.goes_on = counts.total, not made
  facts.seconds_a_point = reuse.seconds_a_point(st, sweep.id, ids.env_id)
  error(UNDONE, 0)
end

-- How many trials of a plan are in a shard; anchors are in every one.
local function in_shard(trials, shard)
  if not shard then return #trials end
  local n = 0
  for _, trial in ipairs(trials) do
    local number = identity.shard_of(canonical.hash(trial.params))
    if trial.role == 'anchor' or number % shard.n == shard.i then n = n + 1 end
  end
  return n
end

local function sentence(facts)
  local parts = { ('%d in the grid'):format(facts.grid) }
  local function add(n, text) if n > 0 then parts[#parts + 1] = text:format(n) end end
  add(facts.removed, '%d removed by where')
  add(facts.elsewhere, '%d of other shards')
  add(facts.done, '%d measured')
  add(facts.reused, '%d reused')
  parts[#parts + 1] = ('%d to run'):format(facts.to_run)
  if facts.to_run > 0 then
    parts[#parts + 1] = facts.seconds and 'about ' .. progress.duration(facts.seconds)
      or 'for how long nobody knows: nothing like it is stored'
  end
  return table.concat(parts, ', ')
end

--- Look what would be done.
---@param plan table of ridge.sweep.space.expand
---@param wanted table of ridge.store.identity.ensure
---@param opt table db, new, reuse, choices, any_name, shard, workers, lab
---@return table facts of Sweep:dry_run
function M.run(plan, wanted, opt)
  local facts = { grid = plan.n_points + plan.n_rejected, removed = plan.n_rejected,
    points = plan.n_points, done = 0, reused = 0, to_run = in_shard(plan.trials, opt.shard) }
  facts.elsewhere = #plan.trials - facts.to_run
  if place.exists(opt.db) then
    local st = store.open(opt.db, 'write')
    local ok, err = pcall(st.within, st, function() look(st, wanted, opt, facts) end)
    st:close()
    if not ok and err ~= UNDONE then error(err, 0) end
  end
  facts.seconds = facts.seconds_a_point and facts.seconds_a_point * facts.to_run
  facts.text = sentence(facts)
  return facts
end

return M
