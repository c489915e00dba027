-- SPDX-License-Identifier: MIT
--
-- Pictures from rows: plot.map, plot.landscape, plot.batch, and replot, which draws a figure again
-- from its own file.

local blame = require 'ridge.blame'
local options = require 'ridge.options'

local M = {}

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
}

local function spec(own)
  local out = {}
  for name, rule in pairs(ABOUT) do out[name] = rule end
  for name, rule in pairs(own) do out[name] = rule end
  return out
end

local MAP = spec {
  x = { 'string', default = 'num_terms', doc = 'column across' },
  y = { 'string', default = 'low_rank', doc = 'column upwards' },
  z = { 'string', default = 'fwd', doc = 'column that colours' },
  ratio = { 'boolean', default = false, doc = 'colour is the speed-up over dense' },
  facet = { 'string', default = 'dtype', doc = 'column with one panel a value' },
  better = { 'string', choices = { 'lower', 'higher' }, doc = 'which way is better' },
  layer = { 'string', doc = 'kind of layer that is mapped; sketched where there are any' },
}
local BATCH = spec {
  best = { 'integer', doc = 'the batch that was found' },
  undecided = { 'boolean', doc = 'larger batches were too noisy to tell' },
  budget = { 'number', doc = 'bytes that may be used' },
  reason = { 'string', doc = 'why the search stopped' },
  model = { 'string', doc = 'what was measured' },
}
local LANDSCAPE = spec { dtype = { 'string', doc = 'element type that is drawn' } }

--- The landscape map: one cell for each measured point.
---@param rows table as sw:results() gives them
---@param opt table|nil x, y, z, ratio, facet, layer; device, commit, date, ...
---@return table figure with save(path, {theme =, scale =, size =})
function M.map(rows, opt)
  return require('ridge.plot.map').make(rows, options.check(MAP, opt, 'plot.map'))
end

--- The 2x2 figure of document 002 for one element type.
---@param rows table as sw:results() gives them
---@param opt table|nil dtype; device, commit, date, ...
---@return table figure with save(path, {theme =, scale =, size =})
function M.landscape(rows, opt)
  return require('ridge.plot.landscape').make(rows, options.check(LANDSCAPE, opt,
    'plot.landscape'))
end

--- Memory, and samples a second where they were measured, over the batch size.
---@param rows table batch, peak_bytes, samples_per_s with _lo and _hi, state
---@param opt table|nil best, budget (bytes), reason, model; device, commit, date, ...
---@return table figure with save(path, {theme =, scale =, size =})
function M.batch(rows, opt)
  return require('ridge.plot.batch').make(rows, options.check(BATCH, opt, 'plot.batch'))
end

--- Draw a figure again from its own file.
---@param path string a PNG that a figure was saved to
---@param opt table|nil options that replace those in the file
---@return table figure
function M.replot(path, opt)
  if type(path) ~= 'string' then
    blame.raise(('plot.replot: the path of a figure is expected, got %s'):format(blame.show(path)))
  end
  local texts = require('ridge.plot.png').read_texts(path)
  local kind, rows, own = require('ridge.plot.record').restore(texts, path)
  for name, value in pairs(opt or {}) do own[name] = value end
  if kind ~= 'map' and kind ~= 'landscape' and kind ~= 'batch' then
    blame.raise(("%s: a figure of the kind '%s' cannot be drawn by this ridge"):format(path, kind),
      'EFORMAT')
  end
  return M[kind](rows, own)
end

return M
