-- SPDX-License-Identifier: MIT
--
-- Pictures from rows: plot.draw makes one of any kind (ridge.plot.kinds), plot.map, plot.landscape
-- and plot.batch those that have a name of their own, and plot.replot draws a figure again from its
-- own file.

local blame = require 'ridge.blame'
local kinds = require 'ridge.plot.kinds'
local late = require 'ridge.late'
local options = require 'ridge.options'
local quiet = require 'ridge.plot.quiet'
local rows_of = require 'ridge.plot.rows'

local M = {}

-- A picture of what a program that plays a GPU did says so, whatever the caller called the device.
local SIMULATED = 'a simulated device, whose times say nothing of any GPU'

local function with_simulated(rows, opt)
  for _, row in ipairs(rows) do
    local flags = row.flags
    if type(flags) == 'string' and flags:find('SIMULATED', 1, true) then
      local out = {}
      for name, value in pairs(opt) do out[name] = value end
      local device = type(out.device) == 'string' and out.device or nil
      if not (device and device:find('simulated', 1, true)) then
        out.device = device and ('%s: %s'):format(device, SIMULATED) or SIMULATED
      end
      return out
    end
  end
  return opt
end

-- A figure of the machine's fast state says so, and keeps the rows that it was made from.
local function of_quiet(module, kind, rows, opt)
  local names = kind == 'landscape' and { 'fwd' } or {}
  for _, name in ipairs { 'x', 'y', 'z' } do names[#names + 1] = opt[name] end
  local figure = module.make(quiet.rows(rows, names, 'plot.' .. kind), opt)
  figure.rows = rows
  local said = ('times of %s'):format(quiet.WORDS)
  figure.subtitle = figure.subtitle and figure.subtitle ~= ''
    and ('%s  ·  %s'):format(figure.subtitle, said) or said
  return figure
end

--- A picture of any kind.
-- >> ridge.plot.draw('slices', sw:results(), { x = 'width', y = 'fwd', by = 'batch' }):save 's.png'
---@param kind string 'map', 'slices', 'roofline', 'pareto' ...: `ridge plot --help` lists them
---@param rows table as sw:results() gives them
---@param opt table|nil of the kind; time ('med', or 'quiet': the machine's fast state); device,
---  commit, date, ...
---@return table figure with save(path, {theme =, scale =, size =})
function M.draw(kind, rows, opt)
  local module = kinds.find(kind)
  local checked = options.check(kinds.options(kind), opt, 'plot.' .. kind)
  rows_of.check(rows, 'plot.' .. kind)
  if late.above.unlike then require(late.above.unlike).picture(kind, rows, checked) end
  opt = with_simulated(rows, checked)
  return opt.time == 'quiet' and of_quiet(module, kind, rows, opt) or module.make(rows, opt)
end

--- The landscape map: one cell for each measured point.
---@param rows table as sw:results() gives them
---@param opt table|nil x, y, z, ratio, facet, layer, time; device, commit, date, ...
---@return table figure with save(path, {theme =, scale =, size =})
function M.map(rows, opt) return M.draw('map', rows, opt) end

--- The 2x2 figure of document 002 for one element type.
---@param rows table as sw:results() gives them
---@param opt table|nil dtype, time; device, commit, date, ...
---@return table figure with save(path, {theme =, scale =, size =})
function M.landscape(rows, opt) return M.draw('landscape', rows, opt) end

--- Memory, and samples a second where they were measured, over the batch size.
---@param rows table batch, peak_bytes, samples_per_s with _lo and _hi, state
---@param opt table|nil best, budget (bytes), reason, model; device, commit, date, ...
---@return table figure with save(path, {theme =, scale =, size =})
function M.batch(rows, opt) return M.draw('batch', rows, opt) end

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
  options.over(own, opt, 'plot.replot')
  local known = pcall(kinds.find, kind)
  if not known then
    blame.raise(("%s: a figure of the kind '%s' cannot be drawn by this ridge"):format(path, kind),
      'EFORMAT')
  end
  return M.draw(kind, rows, own)
end

return M
