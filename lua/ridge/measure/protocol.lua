-- SPDX-License-Identifier: MIT
--- How a point is measured: named levels, or a table of one's own.
--
-- A protocol is a plain table of numbers and words, so that it can be hashed and stored: two
-- numbers measured under different protocols are different numbers.

local blame = require 'ridge.blame'
local options = require 'ridge.options'

local M = {}

local SPEC = {
  level = { 'string', default = 'default', choices = { 'quick', 'demo', 'default', 'rigorous' },
            doc = 'the level that the other fields start from' },
  cache = { 'string', default = 'warm', choices = { 'warm', 'cold', 'warm+cold' },
            doc = 'cold: the caches are flushed before every sample, one call a sample; or '
              .. 'both, as a list' },
  precision = { 'number', min = 1e-4, max = 1, doc = 'half-width of the interval to stop at' },
  -- rounds and their samples are of one process; a sweep has passes and windows instead
  min_rounds = { 'integer', min = 2, max = 1000, doc = 'rounds before it may stop' },
  max_rounds = { 'integer', min = 2, max = 1000, doc = 'rounds after which it must stop' },
  samples = { 'integer', min = 1, max = 1000, doc = 'samples in a round' },
  calls = { 'integer', min = 1, max = 1e9,
            doc = 'calls of a sample; as many as the shortest sample needs when left out' },
  warm_calls = { 'integer', min = 0, max = 1e9,
                 doc = 'calls of the warm-up; until it is steady when left out' },
  window_ns = { 'number', min = 1, max = 1e10, doc = 'shortest sample' },
  warm_min_ns = { 'number', min = 0, max = 1e11, doc = 'shortest warm-up' },
  warm_max_ns = { 'number', min = 0, max = 1e11, doc = 'longest warm-up' },
  warm_window_ns = { 'number', min = 1, max = 1e10, doc = 'one step of the warm-up' },
  budget_ns = { 'number', min = 1, max = 1e13, doc = 'time for the rounds of a point' },
  quiet_ns = { 'number', min = 0, max = 1e12, doc = 'how long to wait for a quiet machine' },
  ci_level = { 'number', default = 0.95, min = 0.5, max = 0.999, doc = 'level of the interval' },
  processes = { 'integer', min = 1, max = 64, doc = 'fresh processes a point is measured in' },
  passes = { 'integer', min = 1, max = 1000, doc = 'passes of a sweep over all its points' },
  max_passes = { 'integer', min = 1, max = 1000,
                 doc = 'passes of a point whose interval still decides something' },
  windows = { 'integer', min = 2, max = 1000, doc = 'samples of a point in one pass' },
  version = { 'integer', default = 2, min = 1, doc = 'of how it is measured; rows carry it' },
  seed = { 'integer', default = 1, min = 0, doc = 'of the order of the rounds' },
}

--- How points are measured: 1 was in rounds of one process, 2 is in passes. Every row says which.
M.VERSION = 2

-- Below five rounds a rule that stops when the interval is narrow covers too little (92.8 % instead
-- of 95 by simulation), so quick does not stop early: it takes its three rounds and says how
-- precise it got.  demo is default with a short warm-up and a short budget.
local LEVELS = {
  quick = { precision = 0.03, min_rounds = 3, max_rounds = 3, samples = 5, window_ns = 5e5,
            warm_min_ns = 5e7, warm_max_ns = 3e8, warm_window_ns = 5e6, budget_ns = 2e9,
            quiet_ns = 1e9,
            passes = 5, max_passes = 5, windows = 3 },
  demo = { precision = 0.02, min_rounds = 5, max_rounds = 40, samples = 10, window_ns = 1e6,
           warm_min_ns = 1e8, warm_max_ns = 4e8, warm_window_ns = 1e7, budget_ns = 1e9,
           quiet_ns = 2e9,
           passes = 5, max_passes = 5, windows = 3 },
  default = { precision = 0.01, min_rounds = 5, max_rounds = 20, samples = 10, window_ns = 5e5,
              warm_min_ns = 1e8, warm_max_ns = 3e9, warm_window_ns = 2e7, budget_ns = 1e10,
              quiet_ns = 1e10,
              passes = 5, max_passes = 12, windows = 3 },
  rigorous = { precision = 0.005, min_rounds = 5, max_rounds = 20, samples = 10, window_ns = 1e6,
               warm_min_ns = 1e8, warm_max_ns = 3e9, warm_window_ns = 2e7, budget_ns = 1e10,
               quiet_ns = 1e10, processes = 5,
               passes = 12, max_passes = 24, windows = 3 },
}

-- { 'warm', 'cold' } in any order is 'warm+cold': what is stored is words, and equal things are
-- equal.
local function cache_modes(list)
  local has = {}
  for _, mode in ipairs(list) do
    if mode ~= 'warm' and mode ~= 'cold' then
      blame.raise(("measure.protocol: cache lists %s; it is made of 'warm' and 'cold'")
        :format(tostring(mode)))
    end
    has[mode] = true
  end
  if has.warm and has.cold then return 'warm+cold' end
  return list[1] or blame.raise 'measure.protocol: cache is an empty list'
end

--- A whole protocol from a level's name or from the fields that differ from it.
--
-- quick: 3 rounds of 5 samples.  demo: 5 to 40 rounds of 10, at most about 1.5 s a point; on the
-- shared two-core development guest 0.3 to 0.6 s and half-widths of 1 to 3 %, mostly 2 %.
-- default: the same to 1 % within 10 s.  rigorous: that to 0.5 % in each of five fresh processes,
-- which a sweep of a recipe and measure.fresh start; measure.block and measure.point measure in
-- this process alone, and what a fresh one would change (where memory lies, the order of pages) is
-- not in their intervals.
---@param given string|table|nil  a level, or fields with an optional level
---@return table protocol         every field filled in
-- >> measure.protocol{ level = 'quick', samples = 8, cache = { 'warm', 'cold' } }
function M.protocol(given)
  if type(given) == 'string' then given = { level = given } end
  if given ~= nil and type(given) ~= 'table' then
    blame.raise(('measure.protocol: a level or a table is expected, got %s'):format(type(given)))
  end
  local level = given and given.level or 'default'
  local filled = {}
  for name, value in pairs(LEVELS[level] or {}) do filled[name] = value end
  for name, value in pairs(given or {}) do filled[name] = value end
  if type(filled.cache) == 'table' then filled.cache = cache_modes(filled.cache) end
  local protocol = options.check(SPEC, filled, 'measure.protocol')
  if protocol.version ~= M.VERSION then
    blame.raise(('measure.protocol: version is %d, and what is measured now is of version %d; rows '
      .. 'of version 1 are rounds of one process, from an older ridge'):format(protocol.version,
      M.VERSION))
  end
  protocol.max_rounds = math.max(protocol.max_rounds, protocol.min_rounds)
  protocol.warm_max_ns = math.max(protocol.warm_max_ns, protocol.warm_min_ns)
  protocol.max_passes = math.max(protocol.max_passes, protocol.passes)
  return protocol
end

-- The warm-up of a pass, at most: a process that is a second old and a set-up that is new need the
-- caches filled and the threads awake, and what does not settle by then shows between passes.
local PASS_WARM_MIN, PASS_WARM_MAX, PASS_WARM_WINDOW = 1.5e7, 6e7, 1.5e6

--- How one pass of a point is measured: its windows, one a round, so that those of partners stand
--- next to each other.
---@param protocol table  of M.protocol
---@return table protocol
function M.of_pass(protocol)
  local out = {}
  for name, value in pairs(protocol) do out[name] = value end
  out.min_rounds, out.max_rounds, out.samples = protocol.windows, protocol.windows, 1
  out.warm_min_ns = math.min(protocol.warm_min_ns, PASS_WARM_MIN)
  out.warm_max_ns = math.min(protocol.warm_max_ns, PASS_WARM_MAX)
  out.warm_window_ns = math.min(protocol.warm_window_ns, PASS_WARM_WINDOW)
  -- waiting for a quiet machine would be to choose which of its states is seen
  out.quiet_ns, out.processes = 0, nil
  return out
end

return M
