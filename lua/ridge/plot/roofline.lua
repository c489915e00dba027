-- SPDX-License-Identifier: MIT
--
-- The roofline (Williams, Waterman and Patterson, 2009): rate over operations a byte, under the
-- ceilings that were measured on this machine. A point above every roof means wrong counts.

local blame = require 'ridge.blame'
local color = require 'ridge.plot.color'
local figure = require 'ridge.plot.figure'
local landscape = require 'ridge.plot.landscape'
local rows_of = require 'ridge.plot.rows'
local scale = require 'ridge.plot.scale'
local series = require 'ridge.plot.series'
local unit = require 'ridge.show.unit'

local M = { summary = 'rate over operations a byte, under the measured ceilings' }

M.OPTIONS = { y = { 'string', required = true, doc = 'phase' }, by = 'a colour a value',
  from = 'arrows start here: impl=naive', to = 'and end here: impl=blocked' }

local ARITHMETIC = { ['fma.f32'] = 'FMA f32', ['fma.f64'] = 'FMA f64', ['amx.bf16'] = 'AMX bf16',
  ['dot.bf16'] = 'AVX-512 bf16' }
local MEMORY = { ['bw.l1'] = 'L1', ['bw.l2'] = 'L2', ['bw.llc'] = 'LLC', ['bw.dram'] = 'DRAM' }

local MEDIANS = 'Points are rates from medians of %s with their 95 %% confidence intervals; larger '
  .. 'ones take longer.'
-- of a profile
local MEANS = 'Points are rates from the mean time of calls with the same shapes; larger ones take '
  .. 'longer.'

-- Points with both counts: intensity in operations a byte, rate in GFLOP/s.
local function points_of(rows, phase)
  local out = {}
  for _, row in ipairs(rows) do
    local flops, bytes, ns = row[phase .. '_flops'], row[phase .. '_bytes'], row[phase]
    if rows_of.measured(row) and flops and bytes and ns and flops > 0 and bytes > 0 then
      local lo, hi = rows_of.interval(row, phase)
      out[#out + 1] = { x = flops / bytes, y = flops / ns, lo = flops / hi,
        hi = lo > 0 and flops / lo or math.huge, row = row, ns = ns }
    end
  end
  return out
end

-- The newest ceiling of each name, split by what it bounds.
local function ceilings_of(rows)
  local arithmetic, memory, seen = {}, {}, {}
  for i, row in ipairs(rows) do
    if row.roof and type(row.value) ~= 'number' then
      blame.raise(('plot.roofline: row %d, the ceiling %s, has no value'):format(i,
        tostring(row.roof)), 'EARG')
    elseif row.roof and not seen[row.roof] then
      seen[row.roof] = true
      if ARITHMETIC[row.roof] then
        arithmetic[#arithmetic + 1] = { name = ARITHMETIC[row.roof], rate = row.value / 1e9,
          lo = (row.value_lo or row.value) / 1e9, hi = (row.value_hi or row.value) / 1e9 }
      elseif MEMORY[row.roof] then
        memory[#memory + 1] = { name = MEMORY[row.roof], rate = row.value / 1e9 }
      end
    end
  end
  table.sort(arithmetic, function(a, b) return a.rate < b.rate end)
  table.sort(memory, function(a, b) return a.rate < b.rate end)
  return arithmetic, memory
end

-- The lines; what they are called is written above the points, where there is room.
local function draw_roofs(panel, arithmetic, memory, t)
  local x, notes = panel.opt.x.scale, {}
  local function note(text, places) notes[#notes + 1] = { text, places } end
  local top = arithmetic[#arithmetic]
  for _, roof in ipairs(memory) do
    local from, to = x.lo, math.min(x.hi, top.rate / roof.rate)
    -- from where the line enters the panel
    local floor = panel.opt.y.scale.lo
    from = math.max(from, floor / roof.rate)
    if to > from then
      panel:path({ from, to }, { from * roof.rate, to * roof.rate }, t.axis, 1.5)
      local at
      local places = {}
      for _, share in ipairs { 0.25, 0.12, 0.4, 0.55, 0.7 } do
        at = math.exp(math.log(from) * (1 - share) + math.log(to) * share)
        places[#places + 1] = { panel:px(at) - 4, panel:py(at * roof.rate) - 10, 'right' }
        places[#places + 1] = { panel:px(at) + 8, panel:py(at * roof.rate) + 10 }
      end
      note(('%s %s'):format(roof.name, unit.format('gbps', roof.rate)), places)
    end
  end
  for _, roof in ipairs(arithmetic) do
    local from = math.max(x.lo, roof.rate / (memory[#memory] and memory[#memory].rate or math.huge))
    panel:path({ from, x.hi }, { roof.rate, roof.rate }, t.axis, 1.5)
    local y = panel:py(roof.rate)
    note(('%s %s'):format(roof.name, unit.format('gflops', roof.rate)),
      { { panel.x + panel.w - 6, y - 10, 'right' }, { panel.x + panel.w - 6, y + 10, 'right' } })
  end
  return notes
end

-- Is the point above what any roof allows?
local function impossible(p, arithmetic, memory)
  local best, fastest = arithmetic[#arithmetic], memory[#memory]
  return best and p.lo > best.hi * 1.02 or fastest and p.lo > p.x * fastest.rate * 1.02
end

local function draw_arrows(panel, points, opt, t)
  if not (opt.from and opt.to) then return end
  local side = require('ridge.plot.ratio').side
  local from, to = side(opt.from, 'plot.roofline'), side(opt.to, 'plot.roofline')
  local function fits(row, where)
    for name, value in pairs(where) do if row[name] ~= value then return false end end
    return true
  end
  for _, a in ipairs(points) do
    for _, b in ipairs(fits(a.row, from) and points or {}) do
      local same = fits(b.row, to)
      for name, value in pairs(a.row) do
        local own = from[name] ~= nil or to[name] ~= nil
        if same and not own and opt.pair_by[name] and b.row[name] ~= value then same = false end
      end
      if same then
        local x1, y1, x2, y2 = panel:px(a.x), panel:py(a.y), panel:px(b.x), panel:py(b.y)
        panel.canvas:line(x1, y1, x2, y2, color.alpha(t.ink, 0.55), 1.4)
        local long = math.max(1, math.sqrt((x2 - x1) ^ 2 + (y2 - y1) ^ 2))
        local ux, uy = (x2 - x1) / long, (y2 - y1) / long
        panel.canvas:polygon({ x2, x2 - 9 * ux + 4 * uy, x2 - 9 * ux - 4 * uy },
          { y2, y2 - 9 * uy - 4 * ux, y2 - 9 * uy + 4 * ux }, color.alpha(t.ink, 0.7))
      end
    end
  end
end

local function draw(data)
  return function(c, t, box)
    local xs, ys = {}, {}
    for _, p in ipairs(data.points) do
      xs[#xs + 1] = p.x
      series.reach(ys, p, true)
    end
    for _, roof in ipairs(data.arithmetic) do
      ys[#ys + 1] = roof.hi
      for _, m in ipairs(data.memory) do xs[#xs + 1] = roof.rate / m.rate end
    end
    local widest = 0 -- of the names beside the panel
    for _, value in ipairs(data.by and rows_of.distinct(data.rows, data.by) or {}) do
      widest = math.max(widest, (c:measure(tostring(value), t.size.note)))
    end
    local spec = { right = data.by and math.max(90, widest + 34) or 12,
      x = { scale = scale.fit(xs, { log = 10 }), kind = 'number', label = 'FLOP a byte' },
      y = { scale = scale.fit(ys, { log = 10 }), kind = 'gflops', label = 'rate' } }
    local panel = series.grid(c, t, box, { spec }, 1)[1]
    local notes = #data.arithmetic > 0 and draw_roofs(panel, data.arithmetic, data.memory, t) or {}
    draw_arrows(panel, data.points, data.opt, t)
    local values = data.by and rows_of.distinct(data.rows, data.by) or {}
    local index, total = {}, 0
    for i, value in ipairs(values) do index[value] = i end
    for _, p in ipairs(data.points) do total = math.max(total, p.ns) end
    for _, p in ipairs(data.points) do
      local ink, shape = color.category(index[p.row[data.by]] or 1, t.name)
      local wrong = impossible(p, data.arithmetic, data.memory)
      panel:point(shape, p.x, p.y, p.lo, p.hi, { color = wrong and t.warn or ink,
        radius = 2.6 + 4.4 * (p.ns / total) ^ 0.25 })
      if wrong then c:marker('circle', panel:px(p.x), panel:py(p.y), 9, nil, t.warn, 2) end
    end
    for _, note in ipairs(notes) do panel:note(note[1], note[2], { color = t.muted }) end
    for i, value in ipairs(values) do
      local ink, shape = color.category(i, t.name)
      local y = panel.y + 8 + (i - 1) * t.size.note * 1.5
      local x = panel.x + panel.w + 14
      c:marker(shape, x, y, t.marker, ink, t.paper, 1)
      c:text(x + 10, y, tostring(value), { size = t.size.note, color = t.text, valign = 'middle' })
    end
  end
end

local function finding(points, arithmetic, memory)
  local wrong = 0
  for _, p in ipairs(points) do
    if impossible(p, arithmetic, memory) then wrong = wrong + 1 end
  end
  if wrong > 0 then
    return ('%d point%s above every roof: wrong counts, or wrong ceilings.'):format(wrong,
      wrong == 1 and ' lies' or 's lie')
  end
end

--- The roofline.
---@param rows table points, and ceilings: roof, value (a second), value_lo, value_hi; means: times
---  are means of calls that were not timed to be compared; left_out: of what has no point, a
---  sentence
---@param opt table checked options
---@return table figure
function M.make(rows, opt)
  local who = 'plot.roofline'
  rows_of.check(rows, who)
  local points, measured = points_of(rows, opt.y), {}
  if #points == 0 then
    blame.raise(('%s: no point says how many operations and bytes %s takes; m:cost does')
      :format(who, opt.y), 'EARG')
  end
  for _, p in ipairs(points) do measured[#measured + 1] = p.row end
  local arithmetic, memory = ceilings_of(rows)
  local dtypes = #rows_of.distinct(measured, 'dtype') > 1 and 'dtype' or nil
  local pairs_by = {}
  for name in pairs(points[1].row) do
    if not name:find('^' .. opt.y) and type(points[1].row[name]) ~= 'table'
        and not ({ trial = 1, began = 1, grade = 1, flags = 1, state = 1, tries = 1, rep = 1,
          reason = 1, reused = 1, implied_by = 1, role = 1 })[name] then
      pairs_by[name] = true
    end
  end
  local own = { from = opt.from, to = opt.to, pair_by = pairs_by }
  local text = landscape.caption(measured, opt.y, rows.means and MEANS or MEDIANS)
  if rows.left_out and text[#text] == 'Nothing is missing.' then text[#text] = rows.left_out end
  text[#text + 1] = #arithmetic > 0 and 'Ceilings were measured on this machine.'
    or 'No ceilings are stored; ridge calibrate measures them.'
  return figure.new { kind = 'roofline', rows = rows, opt = opt, natural = { 1040, 720 },
    title = #arithmetic > 0 and 'Under the measured roofs' or 'Rate over operations a byte',
    subtitle = landscape.subtitle(opt, measured),
    finding = finding(points, arithmetic, memory), caption = text,
    draw = draw { rows = measured, points = points, arithmetic = arithmetic, memory = memory,
      by = opt.by or dtypes, opt = own } }
end

return M
