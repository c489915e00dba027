-- SPDX-License-Identifier: MIT
--- What the steps of a script take that trains by ridge.dist.DataParallel, and when each bucket of
--- gradients is ready: its buckets are looked at from outside.

local C = require 'ridge.ffi.lib'
local minutes = require 'ridge.measure.minutes'
local passes = require 'ridge.measure.passes'
local statistics = require 'ridge.measure.statistics'

local M = {}

local WARM = 3 -- steps that are left out, the first of which makes the buckets

local function now() return tonumber(C.rg_clock_ns()) end

--- Buckets that are made from now on are cut and sent as is said here.
---@param Buckets table the class
---@param instead table|nil bucket_mb, compress: instead of the script's own
function M.replace(Buckets, instead)
  local init = Buckets.init
  function Buckets:init(world, list, opts)
    local own = {}
    for key, value in pairs(opts) do own[key] = value end
    for key, value in pairs(instead or {}) do own[key] = value end
    init(self, world, list, own)
  end
end

--- Look on from now: each step from the end of one backward pass to that of the next.
---@param most integer steps
---@param stop any raised behind the last of them, on all ranks alike
---@param instead table|nil bucket_mb, compress: instead of the script's own
---@return table steps list of {ns, ready = ns by bucket, bytes = by bucket, rows = of this rank},
---  which grows
function M.watch(most, stop, instead)
  local Buckets = require 'ridge.dist.buckets'
  M.replace(Buckets, instead)
  local complete, finish, began, steps = Buckets.complete, Buckets.finish, now(), {}
  local at = {}
  function Buckets:complete(p, weight)
    complete(self, p, weight)
    at[self.of[p].bucket] = now()
  end
  function Buckets:finish(weight)
    local backward = now()
    local step = { ready = {}, bytes = {}, rows = weight }
    for i, bucket in ipairs(self) do
      step.ready[i] = (at[bucket] or backward) - began
      if i > 1 then step.ready[i] = math.max(step.ready[i], step.ready[i - 1]) end
      step.bytes[i] = bucket.bytes
    end
    finish(self, weight)
    local ended = now()
    step.ns, began, at = ended - began, ended, {}
    steps[#steps + 1] = step
    if #steps == most then error(stop, 0) end
  end
  return steps
end

--- Steps as text: what carried messages, then a line each, its time, then by bucket when it was
--- ready and its bytes, then its rows.
---@param steps table of `watch`
---@param library string that of the world
---@return string text
function M.text(steps, library)
  local lines = { library }
  for i, step in ipairs(steps) do
    local words = { ('%.0f'):format(step.ns) }
    for k, ready in ipairs(step.ready) do
      words[#words + 1] = ('%.0f:%.0f'):format(ready, step.bytes[k])
    end
    if step.rows then words[#words + 1] = ('rows %.14g'):format(step.rows) end
    lines[i + 1] = table.concat(words, ' ')
  end
  return table.concat(lines, '\n') .. '\n'
end

local function middle(list) return statistics.median(list) end

--- What a start of the ranks says.
---@param text string of `text`
---@return table|nil found ns (median step), spread (standard deviation of log step time, by its
---  quartiles), buckets: {ready (median), bytes}, library, rows (the most of a step; 0: not told);
---  nil where there are too few steps
function M.read(text)
  local times, ready, bytes, rows = {}, {}, {}, nil
  local n, library = -1, text:match '^[^\n]*'
  for line in text:gmatch '[^\n]+' do
    n = n + 1
    if n > WARM then
      times[#times + 1] = tonumber(line:match '^%d+')
      rows = math.max(rows or 0, tonumber(line:match ' rows (%S+)$') or 0)
      local k = 0
      for at, size in line:gmatch ' (%-?%d+):(%d+)' do
        k = k + 1
        ready[k], bytes[k] = ready[k] or {}, tonumber(size)
        table.insert(ready[k], tonumber(at))
      end
    end
  end
  if #times < 5 then return nil end
  local sorted = statistics.sorted(times)
  local function quantile(p) return sorted[math.max(1, math.ceil(p * #sorted))] end
  local found = { ns = middle(times), buckets = {}, library = library, rows = rows,
    spread = math.log(quantile(0.75) / quantile(0.25)) / 1.349 }
  for k, list in ipairs(ready) do
    found.buckets[k] = { ready = math.min(found.ns, middle(list)), bytes = bytes[k] }
  end
  return found
end

--- What several starts say together, each of which had all numbers of ranks.
---@param starts table[] by start: found of `read` by number of ranks
---@param ranks integer[]
---@param around table|nil times (of the starts, seconds), source (of ridge.measure.minutes)
---@return table by number of ranks: step and efficiency {med, lo, hi} (lo: nil below five starts);
---  the step, which is a time, with what the starts have not seen of other minutes (own_lo, own_hi
---  without, sd_minutes); the efficiency, formed within starts, has none of it
---@return table one of one rank: spread, buckets, the middle of the starts
function M.together(starts, ranks, around)
  local by = {}
  for _, n in ipairs(ranks) do
    local times, shares = {}, {}
    for i, start in ipairs(starts) do
      times[i], shares[i] = start[n].ns, start[1].ns / start[n].ns
    end
    by[n] = { efficiency = passes.interval(shares), step = minutes.add(passes.interval(times),
      around and around.source, around and around.times) }
  end
  local one = { spread = {}, buckets = {} }
  for i, start in ipairs(starts) do one.spread[i] = start[1].spread end
  one.spread = middle(one.spread)
  local before = 0
  for k, bucket in ipairs(starts[1][1].buckets) do
    local list = {}
    for i, start in ipairs(starts) do list[i] = start[1].buckets[k].ready / start[1].ns end
    before = math.max(before, middle(list) * by[1].step.med)
    one.buckets[k] = { ready = before, bytes = bucket.bytes }
  end
  return by, one
end

return M
