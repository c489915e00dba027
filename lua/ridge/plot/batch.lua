-- SPDX-License-Identifier: MIT
--
-- The curve of a search for the best batch size: samples a second where they were measured, and
-- below it the memory with the line that nothing may pass; what was tried and refused stands on
-- that line.

local axes = require 'ridge.plot.axes'
local blame = require 'ridge.blame'
local column = require 'ridge.plot.column'
local figure = require 'ridge.plot.figure'
local landscape = require 'ridge.plot.landscape'
local rows_of = require 'ridge.plot.rows'
local scale = require 'ridge.plot.scale'
local unit = require 'ridge.show.unit'

local M = { summary = 'memory and throughput over the batch size' }

M.OPTIONS = {
  best = { 'integer', doc = 'the batch that was found' },
  undecided = { 'boolean', doc = 'larger batches were too noisy to tell' },
  budget = { 'number', doc = 'bytes that may be used' },
  reason = 'why the search stopped',
  model = 'what was measured',
}

local GAP, RIGHT = 22, 16

local function values_of(rows, name, more)
  local out = { more or nil }
  for _, row in ipairs(rows) do
    if rows_of.measured(row) and row[name] then
      local lo, hi = rows_of.interval(row, name)
      out[#out + 1] = row[name]
      if lo > 0 then out[#out + 1] = lo end
      out[#out + 1] = hi
    end
  end
  return out
end

local function axis(rows, name, more)
  local about = column.about(name)
  return { scale = scale.fit(values_of(rows, name, more), { log = about.base or 10 }),
    kind = about.kind, label = about.label }
end

local function batch_axis(rows)
  local values, ticks = rows_of.distinct(rows, 'batch'), {}
  for _, v in ipairs(values) do
    if math.log(v) / math.log(2) % 1 == 0 then ticks[#ticks + 1] = v end
  end
  return { scale = scale.fit(values, { log = 2, pad = 0.04 }), kind = 'integer',
    ticks = #ticks > 1 and ticks or values, label = 'batch', minor = false }
end

local function draw_curve(panel, rows, name, color, t)
  local xs, ys = {}, {}
  for _, row in ipairs(rows) do
    if rows_of.measured(row) and row[name] then
      xs[#xs + 1], ys[#ys + 1] = row.batch, row[name]
    end
  end
  if #xs > 1 then panel:path(xs, ys, color) end
  for _, row in ipairs(rows) do
    if rows_of.measured(row) and row[name] then
      local lo, hi = rows_of.interval(row, name)
      panel:point('circle', row.batch, row[name], lo, hi,
        { color = color, radius = t.marker * 0.8,
          open = name ~= 'peak_bytes' and row.grade == 'D' })
    end
  end
end

local function draw_best(panel, best, text, t)
  if not best then return end
  panel:upright(best, t.accent, { 4, 3 })
  local x, places = panel:px(best), {}
  for _, y in ipairs { 14, panel.h - 14, panel.h / 2 } do
    places[#places + 1] = { x + 6, panel.y + y }
    places[#places + 1] = { x - 6, panel.y + y, 'right' }
  end
  panel:note(text, places, { color = t.accent, bold = true })
end

local function draw_budget(panel, rows, budget, t)
  if not budget then return end
  panel:level(budget, nil, nil, t.warn, { 6, 3 })
  for _, row in ipairs(rows) do
    if row.state == 'oom' or row.fits == false then
      panel.canvas:marker('diamond', panel:px(row.batch), panel:py(budget), t.marker, t.paper, nil)
      panel.canvas:marker('diamond', panel:px(row.batch), panel:py(budget), t.marker, nil, t.warn,
        1.5)
    end
  end
  local y = panel:py(budget)
  panel:note('may be used ' .. unit.format('bytes', budget), { { panel.x + 8, y - 10 },
    { panel.x + 8, y + 10 }, { panel.x + panel.w - 8, y - 10, 'right' } },
    { color = t.warn, bold = true })
end

local function draw(rows, opt, timed)
  return function(c, t, box)
    local batches = batch_axis(rows)
    local specs = { { title = timed and 'Memory' or nil, x = batches,
      y = axis(rows, 'peak_bytes', opt.show_budget and opt.budget) } }
    if timed then
      table.insert(specs, 1, { title = 'Throughput', x = { scale = batches.scale,
        kind = 'integer', ticks = batches.ticks, minor = false }, y = axis(rows, 'samples_per_s') })
    end
    local height = (box.h - GAP * (#specs - 1)) / #specs
    local gutter = 0
    for _, spec in ipairs(specs) do
      gutter = math.max(gutter, axes.gutter(c, t, spec.y, height))
    end
    for i, spec in ipairs(specs) do
      local above, below = axes.margins(t, spec)
      spec.gutter = gutter
      local panel = axes.panel(c, t, { x = box.x + gutter, y = box.y + (i - 1) * (height + GAP)
        + above, w = box.w - gutter - RIGHT, h = height - above - below }, spec)
      panel:frame()
      local is_rate = timed and i == 1
      draw_curve(panel, rows, is_rate and 'samples_per_s' or 'peak_bytes',
        is_rate and t.sketched or t.dense, t)
      if not is_rate and opt.show_budget then draw_budget(panel, rows, opt.budget, t) end
      if i == 1 then draw_best(panel, opt.best, 'best ' .. (opt.best or ''), t) end
    end
  end
end

local function caption(rows, timed)
  local out = {}
  if timed then
    out = landscape.caption(rows, 'samples_per_s')
    for _, row in ipairs(rows) do
      if row.grade == 'D' then
        out[#out + 1] = 'Open circles were disturbed and decide nothing.'
        break
      end
    end
    out[#out + 1] = 'Each batch was measured in one block with the best before it.'
  else
    out[1] = 'Points are the largest number of live bytes during a call, from the allocator; '
      .. 'open diamonds did not fit.'
  end
  return out
end

local function subtitle(opt)
  local about = landscape.subtitle(opt, { {} })
  if not opt.model then return about end
  return about == '' and opt.model or ('%s  ·  %s'):format(opt.model, about)
end

--- The curve of a search.
---@param rows table
---@param opt table checked options
---@return table figure
function M.make(rows, opt)
  local who = 'plot.batch'
  rows_of.check(rows, who)
  rows_of.check_numbers(rows, 'batch', who, true)
  rows_of.check_numbers(rows, 'peak_bytes', who, true)
  local timed, largest = false, 0
  for _, row in ipairs(rows) do
    timed = timed or row.samples_per_s ~= nil
    largest = math.max(largest, row.peak_bytes or 0)
  end
  if largest == 0 then blame.raise(who .. ': no batch ran', 'EARG') end
  if timed then rows_of.check_numbers(rows, 'samples_per_s', who) end
  table.sort(rows, function(a, b) return a.batch < b.batch end)
  for _, row in ipairs(rows) do row.samples_per_s_n = row.samples_per_s_n or row.n end
  -- a limit far above everything measured would press the curve to the ground
  local shown = { best = opt.best, budget = opt.budget,
                  show_budget = opt.budget and opt.budget <= largest * 64 }
  local found = opt.best and ('%s: %d.'):format(opt.undecided and 'Best shown, undecided' or 'Best',
    opt.best) or 'No batch fits.'
  return figure.new { kind = 'batch', rows = rows, opt = opt,
    natural = { 960, timed and 860 or 640 },
    title = timed and 'Throughput by batch size' or 'The largest batch that fits',
    subtitle = subtitle(opt),
    finding = opt.reason and ('%s Stopped because %s.'):format(found, opt.reason) or found,
    caption = caption(rows, timed), draw = draw(rows, shown, timed) }
end

return M
