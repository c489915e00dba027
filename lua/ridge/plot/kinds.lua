-- SPDX-License-Identifier: MIT
--
-- The kinds of pictures: a file of this folder under the kind's name is one, with `summary`,
-- `OPTIONS` (name to its help, or to a rule of ridge.options) and `make(rows, opt)`.

local blame = require 'ridge.blame'

local M = {}

--- All of them, in the order in which help lists them.
M.NAMES = { 'map', 'efficiency', 'ratio', 'winner', 'uncertainty', 'slices', 'steps', 'effects',
  'roofline', 'pareto', 'forest', 'samples', 'distribution', 'threads', 'history', 'landscape',
  'batch', 'training', 'timeline', 'memory', 'stability', 'trust' }

-- Those that draw a time of each point, which may be that of the machine's fast state.
local OF_TIMES = { map = true, efficiency = true, ratio = true, winner = true, uncertainty = true,
  slices = true, steps = true, effects = true, roofline = true, pareto = true, threads = true,
  history = true, landscape = true }

local TIME = { 'string', default = 'med', choices = { 'med', 'quiet' },
  doc = 'med: the machine as it is; quiet: its fast state' }

-- What every figure says about where it comes from.
local ABOUT = {
  device = { 'string', doc = 'what was measured on' },
  commit = { 'string', doc = 'of the code that measured' },
  date = { 'string', doc = 'of the measurement' },
  sweep = { 'string', doc = 'name or uuid of the sweep' },
  database = { 'string', doc = 'uuid or path of the database' },
  recipe = { 'string', doc = 'hash of the recipe' },
  query = { 'string', doc = 'what selects the rows' },
  version = { 'string', doc = 'of ridge' },
  theme = { 'string', default = 'light', choices = { 'light', 'dark' }, doc = 'look' },
  better = { 'string', choices = { 'lower', 'higher' }, doc = 'which way is better' },
  layer = { 'string', doc = 'kind of layer that is drawn' },
  l1d = { 'number', doc = 'bytes of the L1 cache' },
  l2 = { 'number', doc = 'bytes of the L2 cache' },
  l3 = { 'number', doc = 'bytes of the last-level cache' },
}

--- The module of a kind.
---@param name string
---@return table kind
function M.find(name)
  for _, known in ipairs(M.NAMES) do
    if known == name then return require('ridge.plot.' .. name) end
  end
  local near = type(name) == 'string' and blame.near(name, M.NAMES)
  blame.raise(('there is no picture %s%s; there are %s'):format(tostring(name),
    near and (" (did you mean '%s'?)"):format(near) or '', table.concat(M.NAMES, ', ')), 'EARG')
end

--- The options of a kind, for ridge.options.
---@param name string
---@return table spec
function M.options(name)
  local spec = {}
  for key, rule in pairs(ABOUT) do spec[key] = rule end
  if OF_TIMES[name] then spec.time = TIME end
  for key, rule in pairs(M.find(name).OPTIONS or {}) do
    spec[key] = type(rule) == 'string' and { 'string', doc = rule } or rule
  end
  return spec
end

return M
