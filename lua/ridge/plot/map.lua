-- SPDX-License-Identifier: MIT
--
-- The landscape map: one cell for each measured point, nothing in between.
--
-- Colour is the metric on a logarithmic scale, or the ratio to the dense layer: then colour always
-- means that the intervals lie apart, and grey that they do not. What is missing is a pattern, one
-- for each cause, never a colour. The curve where a sketch computes as much as the dense layer runs
-- between the cells.

local blame = require 'ridge.blame'
local color = require 'ridge.plot.color'
local column = require 'ridge.plot.column'
local figure = require 'ridge.plot.figure'
local landscape = require 'ridge.plot.landscape'
local rows_of = require 'ridge.plot.rows'
local unit = require 'ridge.show.unit'

local M = { summary = 'one cell for each measured point, coloured by a phase or metric' }

M.OPTIONS = {
  x = { 'string', default = 'num_terms', doc = 'column across' },
  y = { 'string', default = 'low_rank', doc = 'column upwards' },
  z = { 'string', default = 'fwd', doc = 'column that colours' },
  ratio = { 'boolean', default = false, doc = 'colour is the speed-up over dense' },
  facet = { 'string', default = 'dtype', doc = 'column with one panel a value' },
}

local BAR, BAR_GAP, BAR_LABELS = 16, 26, 74
local KEY_LINE = 20 -- height
local HATCH = { oom = 'crossed', timeout = 'level', error = 'falling', crashed = 'falling',
  infeasible = 'rising', implied = 'upright', pending = 'dots', running = 'dots',
  no_interval = 'dots', unseen = 'upright', missing = 'dots' }

-- Cells ---------------------------------------------------------------------------------------

local function log2(v)
  return math.log(v) / math.log(2)
end

-- Where a value lies among the categories, as a cell number: between two of them by logarithm.
local function place(categories, v)
  local n = #categories
  local i = 1
  while i < n - 1 and v > categories[i + 1] do i = i + 1 end
  if n == 1 then return 1 + log2(v / categories[1]) end
  local a, b = categories[i], categories[i + 1]
  return i + log2(v / a) / log2(b / a)
end

M.place = place

local function cell_rows(rows, x, y)
  local cells = {}
  for _, row in ipairs(rows) do
    if row[x] and row[y] then
      local key = column.exact(row[x]) .. ':' .. column.exact(row[y])
      cells[key] = cells[key] or {}
      table.insert(cells[key], row)
    end
  end
  return cells
end

-- One row for each cell: a measured one if there is any.
local function cell_of(list, z, better)
  if not list then return nil, 'missing' end
  local measured = {}
  for _, row in ipairs(list) do
    if rows_of.measured(row) and row[z] then measured[#measured + 1] = row end
  end
  if #measured > 0 then return rows_of.pick(measured, z, 'median', better), 'ok' end
  return list[1], list[1].state or 'missing'
end

local function limits(facets, data)
  local lo, hi = math.huge, -math.huge
  for _, facet in ipairs(facets) do
    for _, cell in pairs(facet.cells) do
      if cell.value then lo, hi = math.min(lo, cell.value), math.max(hi, cell.value) end
    end
  end
  if lo > hi then return nil end
  if data.share then return 0, math.max(hi, 100) end
  if data.ratio then
    local reach = math.max(math.abs(math.log(lo)), math.abs(math.log(hi)), math.log(1.5))
    return math.exp(-reach), math.exp(reach)
  end
  if hi / lo < 1.0001 then return lo / 1.5, hi * 1.5 end
  return lo, hi
end

-- Drawing -------------------------------------------------------------------------------------

local function ground_of(data, t, cell)
  if data.ratio then
    if cell.verdict == 'open' then return t.neutral end
    if data.names then return color.mix(t.paper, (color.category(cell.who, t.name)), 0.75) end
    -- the ramp runs from blue (faster) to rust (slower)
    local at = math.log(cell.value) / math.log(data.hi)
    return color.ratio(0.5 - at / 2, t.name)
  end
  local at = data.share and cell.value / data.hi
    or (math.log(cell.value) - math.log(data.lo)) / (math.log(data.hi) - math.log(data.lo))
  -- good is pale or dark by what is better, so that the eye is drawn to the fast side
  return color.magnitude(data.better == 'higher' and at or 1 - at, t.name)
end

--- The colour of a measured cell.
---@param data table of a map
---@param t table theme
---@param cell table value, verdict
---@return table color
M.ground = ground_of

-- The colour of a cell and of what is written on it.
local function paint(data, t, cell)
  local ground = ground_of(data, t, cell)
  return ground, color.readable(ground, color.hex '#101418', color.hex '#FFFFFF')
end

local function draw_cell(c, t, data, cell, x, y, w, h)
  if not cell.value then
    c:rect(x, y, w, h, t.blank)
    c:hatch(HATCH[cell.state] or 'falling', x, y, w, h, t.hatch)
    return
  end
  local ground, ink = paint(data, t, cell)
  c:rect(x, y, w, h, ground)
  if w < 8 or h < 8 then return end -- no room for marks; the caption counts the grades
  if cell.grade == 'D' then c:hatch('crossed', x, y, w, h, color.alpha(ink, 0.35), 9) end
  if cell.grade == 'C' then c:marker('circle', x + w - 7, y + 7, 2.2, ink) end
end

-- The number in a cell, over everything else; its ground keeps lines away from the letters.
local function draw_value(c, t, data, cell, x, y, w, h)
  if not cell.value or w < 38 or h < 20 then return end
  local ground, ink = paint(data, t, cell)
  local text = data.ratio and unit.number(cell.value, data.names and 3 or 2) .. '×'
    or data.share and ('%.0f%%'):format(cell.value)
    or unit.number(cell.value * data.factor, 3) .. (data.kind == 'percent' and '%' or '')
  c:text(x + w / 2, y + h / 2, text, { size = t.size.value, color = ink, align = 'center',
    valign = 'middle', halo = ground })
end

-- The ridge: through the best cell of every column.
local function draw_ridge(c, t, facet, data, at)
  local xs, ys = {}, {}
  for i in ipairs(data.xs) do
    local best
    for j in ipairs(data.ys) do
      local cell = facet.cells[i .. ':' .. j]
      if cell and cell.value and cell.grade ~= 'D' and (not best
        or (data.better == 'higher') == (cell.value > facet.cells[i .. ':' .. best].value)) then
        best = j
      end
    end
    if best then
      local x, y, w, h = at(i, best)
      xs[#xs + 1], ys[#ys + 1] = x + w / 2, y + h - 5
    end
  end
  c:polyline(xs, ys, color.alpha(t.paper, 0.55), 3.4)
  c:polyline(xs, ys, t.ink, 1.3)
end

-- Where 2 T R equals k, through the cells' centres by logarithm.
local function draw_break_even(c, t, data, area, cw, ch)
  if not data.k then return nil end
  local xs, ys = {}, {}
  local n = 240
  for s = 0, n do
    local at = 0.5 + s / n * #data.xs
    local i = math.max(1, math.min(#data.xs - 1, math.floor(at)))
    local a, b = data.xs[i], data.xs[i + 1] or data.xs[i] * 2
    local terms = a * (b / a) ^ (at - i)
    local v = place(data.ys, data.k / (2 * terms))
    local px, py = area.x + (at - 0.5) * cw, area.y + area.h - (v - 0.5) * ch
    if py >= area.y - 0.5 and py <= area.y + area.h + 0.5 then
      xs[#xs + 1], ys[#ys + 1] = px, py
    end
  end
  if #xs < 2 then return nil end
  c:polyline(xs, ys, color.alpha(t.paper, 0.9), 5)
  c:polyline(xs, ys, t.warn, 2.4, { 8, 4 })
  return true
end

-- Between cells that the arithmetic holds back and cells that memory does.
local function draw_bounds(c, t, data, facet, area, cw, ch)
  local function bound(i, j)
    local cell = facet.cells[i .. ':' .. j]
    return cell and cell.bound and (cell.bound == 'compute' and 'compute' or 'memory')
  end
  local function edge(x1, y1, x2, y2)
    c:line(x1, y1, x2, y2, color.alpha(t.paper, 0.9), 5)
    c:line(x1, y1, x2, y2, t.warn, 2.4)
  end
  for i = 1, #data.xs do
    for j = 1, #data.ys do
      local here, right, up = bound(i, j), bound(i + 1, j), bound(i, j + 1)
      local x, y = area.x + i * cw, area.y + area.h - j * ch
      if here and right and here ~= right then edge(x, y, x, y + ch) end
      if here and up and here ~= up then edge(x - cw, y, x, y) end
    end
  end
end

-- A value of a parameter as a tick says it.
local function value_name(v)
  if type(v) ~= 'number' then return tostring(v) end
  return v % 1 == 0 and math.abs(v) < 1e15 and unit.format('integer', v) or unit.number(v)
end

-- Every how many-th of n labels of a size finds room.
local function every(n, room, size) return math.max(1, math.ceil(size / (room / n))) end

local function draw_facet(c, t, data, facet, box)
  local nx, ny = #data.xs, #data.ys
  local labels, widest = 0, 0
  for _, v in ipairs(data.ys) do
    labels = math.max(labels, c:measure(value_name(v), t.size.tick))
  end
  for _, v in ipairs(data.xs) do
    widest = math.max(widest, c:measure(value_name(v), t.size.tick))
  end
  local left, top = labels + 12, t.size.panel * 1.5 + t.size.label * 1.6
  local area = { x = box.x + left, y = box.y + top, w = box.w - left,
    h = box.h - top - t.size.tick * 1.3 - t.size.label * 2 }
  local cw, ch = area.w / nx, area.h / ny
  local function at(i, j)
    local x, y = area.x + (i - 1) * cw, area.y + (ny - j) * ch
    local gap = math.min(cw, ch) > 6 and 1 or 0 -- small cells touch
    return x + gap, y + gap, cw - 2 * gap, ch - 2 * gap
  end
  c:text(box.x, box.y + t.size.panel * 0.8, facet.title, { size = t.size.panel, color = t.ink,
    bold = true })
  c:text(box.x, area.y - 9, column.about(data.y).label, { size = t.size.label, color = t.muted })
  local step = every(ny, area.h, t.size.tick * 1.25)
  for j = 1, ny, step do
    local _, y, _, h = at(1, j)
    c:text(area.x - 7, y + h / 2, value_name(data.ys[j]), { size = t.size.tick, color = t.text,
      align = 'right', valign = 'middle' })
  end
  step = every(nx, area.w, widest + 10)
  for i = 1, nx, step do
    local x, _, w = at(i, 1)
    c:text(x + w / 2, area.y + area.h + 6, value_name(data.xs[i]), { size = t.size.tick,
      color = t.text, align = 'center', valign = 'top' })
  end
  c:text(area.x + area.w, area.y + area.h + t.size.tick * 1.3 + t.size.label * 1.3,
    column.about(data.x).label, { size = t.size.label, color = t.muted, align = 'right' })
  for i = 1, nx do
    for j = 1, ny do
      local x, y, w, h = at(i, j)
      draw_cell(c, t, data, facet.cells[i .. ':' .. j], x, y, w, h)
    end
  end
  c:clipped(area.x, area.y, area.w, area.h, function()
    if not data.plain then draw_ridge(c, t, facet, data, at) end
    draw_break_even(c, t, data, area, cw, ch)
  end)
  if data.bounds then draw_bounds(c, t, data, facet, area, cw, ch) end
  for i = 1, nx do
    for j = 1, ny do
      local x, y, w, h = at(i, j)
      draw_value(c, t, data, facet.cells[i .. ':' .. j], x, y, w, h)
    end
  end
  if facet.best then
    local x, y, w, h = at(facet.best[1], facet.best[2])
    c:frame(x + 1, y + 1, w - 2, h - 2, t.paper, 4.5)
    c:frame(x + 1, y + 1, w - 2, h - 2, t.ink, 2)
  end
end

-- In place of a colour bar: whose colour is which.
local function draw_names(c, t, data, x, y)
  for i, name in ipairs(data.names) do
    local top = y + (i - 1) * KEY_LINE
    c:rect(x, top, BAR, BAR, ground_of(data, t, { who = i }))
    c:text(x + BAR + 8, top + BAR / 2, name, { size = t.size.tick, color = t.text,
      valign = 'middle' })
  end
end

local function draw_bar(c, t, data, x, y, h)
  local n = 160
  local scales = require 'ridge.plot.scale'
  local s = data.share and scales.linear(data.lo, data.hi)
    or scales.log(data.lo, data.hi, data.ratio and 2 or 10)
  for i = 0, n - 1 do
    local v = s:value((i + 0.5) / n)
    c:rect(x, y + h - (i + 1) * h / n, BAR, h / n + 0.6, ground_of(data, t, { value = v }))
  end
  local last
  for _, v in ipairs(s:ticks(9)) do
    local ty = y + h * (1 - s:at(v))
    if not last or last - ty > t.size.tick * 1.4 then
      c:line(x + BAR, c:crisp(ty), x + BAR + 4, c:crisp(ty), t.axis, 1)
      c:text(x + BAR + 8, ty, data.ratio and unit.number(v) .. '×'
        or unit.format(data.share and 'percent' or data.kind, v),
        { size = t.size.tick, color = t.text, valign = 'middle' })
      last = ty
    end
  end
end

local MEDIANS = 'Cells are medians of %s.'
local RATIOS = 'Cells are ratios of medians of %s; they have a colour where the 95 %% confidence '
  .. 'intervals do not touch.'
local PAIRED = 'Cells are medians of the ratios within each pass, of %s; they have a colour where '
  .. 'their 95 %% confidence interval leaves out 1.'
local SOME_PAIRED = PAIRED .. ' Without passes side by side they are ratios of medians, with a '
  .. 'colour where intervals do not touch.'

-- Signs that are on the map, explained in as many lines as it takes; returns where the last is.
local function draw_key(c, t, data, box)
  local size, x, y = t.size.note, box.x, box.y + 6
  local function item(text, w, draw)
    if x > box.x and x + w + 7 + c:measure(text, size) > box.x + box.w then
      x, y = box.x, y + KEY_LINE
    end
    draw(x)
    x = x + w + 7
    x = x + c:text(x, y, text, { size = size, color = t.text, valign = 'middle' }) + 18
  end
  if data.k then
    item(('2·T·R = %.0f: computes as much as dense'):format(data.k), 26, function(at)
      c:line(at, y, at + 26, y, t.warn, 2.4, { 8, 4 })
    end)
  end
  if data.bounds then
    item('arithmetic is the limit on one side, memory on the other', 22, function(at)
      c:line(at, y, at + 22, y, t.warn, 2.4)
    end)
  end
  if not data.plain then
    item('best of each column', 22, function(at) c:line(at, y, at + 22, y, t.ink, 1.3) end)
  end
  if data.any_best then
    item(data.best_word or 'best', 16, function(at) c:frame(at + 1, y - 7, 14, 14, t.ink, 2) end)
  end
  if data.ratio then
    item('undecided', 16, function(at) c:rect(at, y - 7, 16, 14, t.neutral) end)
  end
  if data.grades.C then
    item('grade C', 6, function(at) c:marker('circle', at + 3, y, 2.6, t.ink) end)
  end
  if data.grades.D then
    item('grade D, disturbed', 16, function(at)
      c:rect(at, y - 7, 16, 14, t.blank)
      c:hatch('crossed', at, y - 7, 16, 14, color.alpha(t.ink, 0.5), 7)
    end)
  end
  for _, state in ipairs(rows_of.CAUSES) do
    if data.states[state] then
      item(rows_of.CAUSE_WORDS[state], 16, function(at)
        c:rect(at, y - 7, 16, 14, t.blank)
        c:hatch(HATCH[state], at, y - 7, 16, 14, t.hatch)
      end)
    end
  end
  return y
end

local function draw(data)
  return function(c, t, box)
    local top = draw_key(c, t, data, box) + 24
    local n = #data.facets
    local gap = 40
    local width = (box.w - BAR - BAR_GAP - BAR_LABELS - (n - 1) * gap) / n
    for i, facet in ipairs(data.facets) do
      draw_facet(c, t, data, facet, { x = box.x + (i - 1) * (width + gap), y = top, w = width,
        h = box.y + box.h - top })
    end
    local bar_top = top + t.size.panel * 1.5 + t.size.label * 1.6
    local bar_h = box.y + box.h - bar_top - t.size.tick * 1.3 - t.size.label * 2
    local bar_x = box.x + box.w - BAR - BAR_LABELS
    if data.names then
      draw_names(c, t, data, bar_x, bar_top)
    else
      draw_bar(c, t, data, bar_x, bar_top, bar_h)
    end
    c:text(bar_x, bar_top - 9, data.z_label,
      { size = t.size.label, color = t.muted })
  end
end

-- The figure ----------------------------------------------------------------------------------

local function make_facet(all, rows, data, title)
  local facet = { title = title, cells = {} }
  local cells = cell_rows(rows, data.x, data.y)
  for i, vx in ipairs(data.xs) do
    for j, vy in ipairs(data.ys) do
      local list = cells[column.exact(vx) .. ':' .. column.exact(vy)]
      local row, state = cell_of(list, data.z, data.better)
      data.most = math.max(data.most, list and #list or 0)
      local cell = { state = state, grade = row and row.grade }
      if state == 'ok' then
        cell.value, cell.verdict, cell.state, cell.who = data.value(row, all)
      end
      if cell.value then
        cell.bound = data.bounds and row[data.bounds]
        local best = facet.best and facet.cells[facet.best[1] .. ':' .. facet.best[2]]
        -- what was disturbed or is undecided is shown, and is not the best of anything
        if cell.grade ~= 'D' and cell.verdict ~= 'open'
          and (not best or (data.better == 'higher') == (cell.value > best.value)) then
          facet.best, data.any_best = { i, j }, true
        end
      else
        cell.state = cell.state or 'missing'
        data.states[cell.state] = true
      end
      if cell.value and cell.grade then data.grades[cell.grade] = true end
      facet.cells[i .. ':' .. j] = cell
    end
  end
  return facet
end

-- How much faster than the dense layer that belongs to it.
local function against_dense(z)
  return function(row, all)
    local dense = rows_of.dense_for(all, row, z)
    if not dense then
      blame.raise('plot.map: there is no measured dense row to compare with', 'EARG')
    end
    return rows_of.ratio(dense, row, z), rows_of.verdict(row, dense, z)
  end
end

-- What the rows that have a dense layer are compared by.
local function caption_of(rows, z)
  local compared, paired = 0, 0
  for _, row in ipairs(rows) do
    local dense = row.layer ~= 'dense' and row[z] ~= nil and rows_of.dense_for(rows, row, z)
    if dense then
      compared = compared + 1
      if rows_of.paired(row, dense, z) then paired = paired + 1 end
    end
  end
  return paired == 0 and RATIOS or paired == compared and PAIRED or SOME_PAIRED
end

-- The cells that have a value, as they are drawn.
local function cells_of(data)
  local list = {}
  for _, facet in ipairs(data.facets) do
    for _, cell in pairs(facet.cells) do
      if cell.value then list[#list + 1] = cell end
    end
  end
  return list
end

--- A map of what is worked out from cells.
---@param rows table
---@param opt table x, y, z, facet, layer; device, commit, date ...
---@param own table kind, title, caption, better, and what is special: value(row, rows) with the
---  verdict of a ratio, or nil, nil and the cause (rows.lua); ratio, share (percent of a whole),
---  bounds (column with the limiting roof), plain (no ridge line), label (over the colour bar),
---  unit (kind of number), of (column that the caption names), names (colour is one of them: value
---  says as its fourth result which), all_layers (not the sketched ones alone); caption may be, and
---  finding is, a function that is called when the cells are known: finding(cells)
---@return table figure
function M.compose(rows, opt, own)
  local who = 'plot.' .. own.kind
  rows_of.check(rows, who)
  local all = rows
  -- a sweep of sketched layers beside others is mapped for them unless somebody says otherwise
  local layer = opt.layer or not own.all_layers
    and #rows_of.select(rows, { layer = 'sketched' }) > 0 and 'sketched' or nil
  rows = layer and rows_of.select(rows, { layer = layer }) or rows
  if #rows == 0 then
    blame.raise(("%s: no row has layer '%s'"):format(who, opt.layer), 'EARG')
  end
  for _, name in ipairs { opt.x, opt.y } do column.require(rows, name, who) end
  rows_of.check_numbers(rows, opt.z, who)
  local about = column.about(opt.z, rows)
  local data = { x = opt.x, y = opt.y, z = opt.z, states = {}, grades = {},
    xs = rows_of.distinct(rows, opt.x), ys = rows_of.distinct(rows, opt.y), facets = {},
    better = own.better, ratio = own.ratio, share = own.share, bounds = own.bounds,
    plain = own.plain, most = 0, names = own.names, best_word = own.best_word,
    value = own.value or function(row) return row[opt.z] end }
  local facets = opt.facet and rows_of.distinct(rows, opt.facet) or {}
  if opt.facet == 'dtype' then table.sort(facets, function(a, b) return a > b end) end
  for _, value in ipairs(facets) do
    data.facets[#data.facets + 1] = make_facet(all, rows_of.select(rows, { [opt.facet] = value }),
      data, tostring(value))
  end
  if #facets == 0 then data.facets[1] = make_facet(all, rows, data, '') end
  data.lo, data.hi = limits(data.facets, data)
  if not data.lo then blame.raise(('%s: no row was measured'):format(who), 'EARG') end
  local n_in, n_out = rows_of.common(rows, 'in_features'), rows_of.common(rows, 'out_features')
  if n_in and n_out and opt.x == 'num_terms' and opt.y == 'low_rank' then
    data.k = rows_of.break_even(n_in, n_out)
  end
  data.kind = own.unit or about.kind
  local factor, name = unit.common(data.kind, math.sqrt(math.max(data.lo, 1e-300) * data.hi))
  data.factor = factor
  data.z_label = own.label or name ~= '' and 'cells in ' .. name or about.short
  local several = data.most > 1 and (' Up to %d points lie in a cell; the middle one of them is '
    .. 'drawn.'):format(data.most) or ''
  return figure.new { kind = own.kind, rows = all, opt = opt,
    natural = { #data.facets > 1 and 1240 or 760, 660 }, title = own.title,
    subtitle = landscape.subtitle(opt, rows), finding = own.finding and own.finding(cells_of(data)),
    caption = landscape.caption(rows, own.of or opt.z, (type(own.caption) == 'function'
      and own.caption() or own.caption) .. several),
    data = data,
    draw = draw(data) }
end

--- The landscape map.
---@param rows table
---@param opt table checked options: x, y, z, ratio, facet, layer
---@return table figure
function M.make(rows, opt)
  local about = column.about(opt.z, rows)
  if opt.ratio then
    return M.compose(rows, opt, { kind = 'map', ratio = true, value = against_dense(opt.z),
      better = 'higher', label = 'speed-up', caption = caption_of(rows, opt.z),
      title = 'Sketched against dense: how much faster' })
  end
  return M.compose(rows, opt, { kind = 'map', better = opt.better or about.better or 'lower',
    caption = MEDIANS, title = ('Landscape of %s'):format(about.label) })
end

return M
