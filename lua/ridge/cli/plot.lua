-- SPDX-License-Identifier: MIT
--- `ridge plot`: pictures of a stored sweep.

local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'a picture of a sweep: ridge plot map widths -x width -y batch -z fwd'
M.usage = 'ridge plot KIND SWEEP [-x COLUMN] [-y COLUMN] [-z COLUMN] [-o FILE]'

local ABOUT = [[
Kinds:

%s

Columns are parameters, phases (fwd) and metrics (fwd.gflops); those that are left out are found in
the sweep. Only rows are drawn, and the picture carries them: `ridge replot` draws it again.

    ridge plot map widths -x width -y batch -z fwd.gflops -o map.png
    ridge plot ratio widths --a dtype=f32 --b dtype=bf16 --inline
    ridge plot slices widths -x width -y fwd --by batch --facet dtype --theme dark

SWEEP may be several, 'mlp,mlp-2' or 'mlp*': their points are drawn together. machine, cpu, commit,
host, date and sweep are columns, too: --a machine=m1a2b3c4 --b machine=m5d6e7f8.

Points of unlike machines are drawn together with --mixed only.

    ridge plot slices 'widths*' -x width -y fwd --facet machine]]

-- What each option of a kind is called on the command line, beside x, y and z.
local TEXTS = { 'facet', 'by', 'a', 'b', 'of', 'from', 'to', 'trials', 'label', 'params', 'dtype',
  'layer', 'better', 'better_x', 'better_y' }

local function spec()
  local kinds = require 'ridge.plot.kinds'
  local lines = {}
  for i, name in ipairs(kinds.NAMES) do
    lines[i] = ('  %-13s %s'):format(name, kinds.find(name).summary)
  end
  return {
    about = ABOUT:format(table.concat(lines, '\n')),
    rest = 'KIND SWEEP', most = 2,
    { 'x', '', 'column across', short = 'x' },
    { 'y', '', 'column upwards, or the phase', short = 'y' },
    { 'z', '', 'column that colours', short = 'z' },
    { 'by', '', 'a line or a colour a value' },
    { 'facet', '', 'a panel a value' },
    { 'a', '', 'ratio: the one, as dtype=f32' },
    { 'b', '', 'ratio: the other, as dtype=bf16' },
    { 'of', '', 'winner: column whose values compete' },
    { 'from', '', 'roofline: arrows start here, as impl=naive' },
    { 'to', '', 'roofline: and end here' },
    { 'ratio', false, 'map: colour is the speed-up over dense' },
    { 'trials', '', 'samples, distribution: which trials, by comma' },
    { 'histogram', false, 'distribution: bars' },
    { 'tile', 0, 'steps: a hair line at each multiple', integer = true, min = 0 },
    { 'label', '', 'pareto: columns that name a point' },
    { 'params', '', 'effects: parameters, by comma' },
    { 'dtype', '', 'landscape: the element type' },
    { 'layer', '', 'kind of layer that is drawn' },
    { 'better', '', 'lower or higher' },
    { 'better_x', '', 'pareto: which way is better across' },
    { 'better_y', '', 'pareto: and upwards' },
    { 'quiet', false, "times of the machine's fast state, not medians" },
    { 'mixed', false, 'also points of unlike machines, as if they were of one' },
    { 'theme', 'light', 'look', choices = { 'light', 'dark' } },
    { 'size', '', 'pixels, such as 2400x1500' },
    { 'o', '', 'PNG file, - for standard output; the sweep and kind when left out', short = 'o',
      writes = 'file' },
    { 'inline', false, 'into the terminal instead of a file' },
    stored.DB,
  }
end

-- What was given, for the kind.
local function given(opt)
  local out = {}
  for _, name in ipairs { 'x', 'y', 'z', unpack(TEXTS) } do
    if opt[name] ~= '' then out[name] = opt[name] end
  end
  out.time = opt.quiet and 'quiet' or nil
  out.ratio, out.histogram = opt.ratio or nil, opt.histogram or nil
  out.mixed = opt.mixed or nil
  out.tile = opt.tile > 1 and opt.tile or nil
  return out
end

--- Pixels from '2400x1500' as units at twice the size; nil and why not.
---@param text string
---@return table|nil size
---@return string|nil reason
function M.size(text)
  if text == '' then return nil end
  local w, h = text:match '^(%d+)x(%d+)$'
  if not w then return nil, ("--size: '%s' is not like 2400x1500"):format(text) end
  if tonumber(w) < 960 or tonumber(h) < 800 then
    return nil, ('--size: %s is too small to be read; the least is 960x800'):format(text)
  end
  return { tonumber(w) / 2, tonumber(h) / 2 } -- figures are written at 2x
end

--- Draw.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('plot', spec(), argv, 'read', function(opt, rest, st)
    local size, reason = M.size(opt.size)
    if reason then return stored.fail('plot', reason) end
    if not rest[1] then
      return stored.fail('plot', 'a kind is missing: ' .. table.concat(
        require('ridge.plot.kinds').NAMES, ', '))
    end
    require('ridge.plot.kinds').find(rest[1])
    if not rest[2] then
      return stored.fail('plot', 'a sweep is missing; ridge sweeps lists them')
    end
    local sweeps = require('ridge.store.query').several(st, rest[2])
    local sweep = table.remove(sweeps, 1)
    -- a stored name is no path
    local path = opt.o ~= '' and opt.o
      or ('%s-%s.png'):format(sweep.name:gsub('[^%w_.-]', '_'):gsub('^[.]', '_'), rest[1])
    local figure = require('ridge.sweep.picture').figure(rest[1], st, sweep, given(opt), sweeps)
    local all = { sweep, unpack(sweeps) }
    local told = opt.mixed and require('ridge.sweep.unlike').told(st, all)
    if told then require('ridge.plain').note(told, '\n') end
    if opt.inline then
      figure:show()
    else
      stored.picture(figure, path, { theme = opt.theme, size = size })
    end
  end)
end

return M
