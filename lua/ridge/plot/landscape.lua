-- SPDX-License-Identifier: MIT
--
-- The 2x2 figure of document 002 (F225): time over parameters, memory over parameters, time over
-- num_terms for each low_rank, time over low_rank for each num_terms; one element type a figure.
--
-- The dense layer is a line across every panel, its interval a band; the low-rank rivals of equal
-- bytes are open diamonds. The three panels of time share one scale, so that an eye can move
-- between them.

local axes = require 'ridge.plot.axes'
local blame = require 'ridge.blame'
local color = require 'ridge.plot.color'
local column = require 'ridge.plot.column'
local figure = require 'ridge.plot.figure'
local minutes = require 'ridge.show.minutes'
local rows_of = require 'ridge.plot.rows'
local scale = require 'ridge.plot.scale'
local unit = require 'ridge.show.unit'

local M = { summary = 'the 2x2 figure of time and memory over parameters, terms and rank' }

M.OPTIONS = { dtype = 'element type that is drawn' }


local GAP_X, GAP_Y = 52, 26
-- Room to the right of the lower panels for the names of the lines.
local NAMES = 58

-- Axes ----------------------------------------------------------------------------------------

local function values_of(rows, name)
  local out = {}
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

local function value_axis(rows, name)
  local about = column.about(name, rows)
  return { scale = scale.fit(values_of(rows, name), { base = about.base or 10 }),
    kind = about.kind, label = about.label }
end

local function parameter_axis(rows, name)
  local ticks = rows_of.distinct(rows, name)
  return { scale = scale.fit(ticks, { base = 2, pad = 0.05 }), kind = 'integer', ticks = ticks,
    label = name, minor = false }
end

-- Panels --------------------------------------------------------------------------------------

local function draw_dense(panel, data, name, t)
  for _, dense in ipairs(data.dense) do
    if dense[name] then
      local lo, hi = rows_of.interval(dense, name)
      panel:level(dense[name], lo, hi, t.dense, { 6, 3 })
    end
  end
end

local function name_one(panel, dense, said, name, t)
  local y = panel:py(dense[name])
  local places = {}
  for _, dy in ipairs { -10, 10 } do
    places[#places + 1] = { panel.x + panel.w - 4, y + dy, 'right' }
    places[#places + 1] = { panel.x + 6, y + dy, 'left' }
    places[#places + 1] = { panel.x + panel.w / 2, y + dy, 'center' }
  end
  local about = column.about(name)
  panel:note(('%s %s'):format(said, unit.format(about.kind, dense[name])), places,
    { color = t.dense, bold = true })
end

local function name_dense(panel, data, name, t)
  for i, dense in ipairs(data.dense) do
    if dense[name] then name_one(panel, dense, data.dense_names[i], name, t) end
  end
end

-- Time or memory over the number of trained parameters.
local function draw_scatter(panel, data, name, t)
  draw_dense(panel, data, name, t)
  for _, row in ipairs(data.lowrank) do
    if row[name] and row.param_count then
      local lo, hi = rows_of.interval(row, name)
      panel:point('diamond', row.param_count, row[name], lo, hi,
        { color = t.lowrank, open = true })
    end
  end
  for _, row in ipairs(data.sketched) do
    if row[name] and row.param_count then
      local lo, hi = rows_of.interval(row, name)
      panel:point('circle', row.param_count, row[name], lo, hi,
        { color = data.rank_color[row.low_rank], open = row.grade == 'D' })
    end
  end
  name_dense(panel, data, name, t)
end

-- Rows of one batch and one size each, which a line may join.
local function of_one_size(rows)
  local groups, by = {}, {}
  for _, row in ipairs(rows) do
    local key = ('%s %s %s'):format(tostring(row.batch), tostring(row.in_features),
      tostring(row.out_features))
    if not by[key] then
      by[key] = {}
      groups[#groups + 1] = by[key]
    end
    table.insert(by[key], row)
  end
  return groups
end

-- Time over one parameter, one line for each value of the other.
local function draw_lines(panel, data, x, by, short, t)
  draw_dense(panel, data, 'fwd', t)
  local values, labels = rows_of.distinct(data.sketched, by), {}
  local colors = color.ordered(#values, t.name)
  for i, value in ipairs(values) do
    for _, line in ipairs(of_one_size(rows_of.select(data.sketched, { [by] = value }))) do
      table.sort(line, function(a, b) return a[x] < b[x] end)
      local xs, ys = {}, {}
      for _, row in ipairs(line) do xs[#xs + 1], ys[#ys + 1] = row[x], row.fwd end
      panel:path(xs, ys, colors[i])
      for _, row in ipairs(line) do
        local lo, hi = rows_of.interval(row, 'fwd')
        panel:point('circle', row[x], row.fwd, lo, hi, { color = colors[i], radius = 3.6,
          open = row.grade == 'D' })
      end
      local last = line[#line]
      labels[#labels + 1] = { x = panel:px(last[x]), y = panel:py(last.fwd),
        text = ('%s %d'):format(short, value) }
    end
  end
  panel:ends(labels)
  name_dense(panel, data, 'fwd', t)
end

-- What the signs mean, in one line under the heading: sketched by rank, low-rank, dense.
local function draw_key(c, t, data, x, y)
  local size = t.size.note
  local function item(text, draw)
    draw(x + 6)
    x = x + 18
    x = x + c:text(x, y, text, { size = size, color = t.text, valign = 'middle' }) + 16
  end
  x = x + c:text(x, y, 'sketched, rank', { size = size, color = t.muted, valign = 'middle' }) + 8
  for _, rank in ipairs(rows_of.distinct(data.sketched, 'low_rank')) do
    item(tostring(rank), function(at)
      c:marker('circle', at, y, t.marker, data.rank_color[rank], t.paper, 1)
    end)
  end
  if #data.lowrank > 0 then
    item('low-rank, equal bytes', function(at)
      c:marker('diamond', at, y, t.marker, nil, t.lowrank, 1.5)
    end)
  end
  if #data.dense > 0 then
    item('dense', function(at) c:line(at - 7, y, at + 9, y, t.dense, 1.4, { 6, 3 }) end)
  end
end

local function draw(data)
  return function(c, t, box)
    local colors = color.ordered(#data.ranks, t.name)
    data.rank_color = {}
    for i, rank in ipairs(data.ranks) do data.rank_color[rank] = colors[i] end
    draw_key(c, t, data, box.x, box.y + 6)
    local top = box.y + 26
    local time, memory = data.time, data.memory
    local params, terms, ranks = data.params, data.terms_axis, data.ranks_axis
    local specs = {
      { title = 'Time over parameters', x = params, y = time },
      { title = 'Memory over parameters', x = params, y = memory },
      { title = 'Time over num_terms', x = terms, y = time, right = NAMES },
      { title = 'Time over low_rank', x = ranks, y = time, right = NAMES },
    }
    local height = (box.y + box.h - top - GAP_Y) / 2
    local width = (box.w - GAP_X) / 2
    local panels = {}
    for i, spec in ipairs(specs) do
      local above, below = axes.margins(t, spec)
      local h = height - above - below
      local gutter = axes.gutter(c, t, spec.y, h)
      local left = box.x + ((i - 1) % 2) * (width + GAP_X)
      local y = top + math.floor((i - 1) / 2) * (height + GAP_Y) + above
      spec.gutter = gutter
      panels[i] = axes.panel(c, t, { x = left + gutter, y = y,
        w = width - gutter - (spec.right or 0), h = h }, spec)
      panels[i]:frame()
    end
    draw_scatter(panels[1], data, 'fwd', t)
    draw_scatter(panels[2], data, 'peak_memory_mb', t)
    draw_lines(panels[3], data, 'num_terms', 'low_rank', 'R', t)
    draw_lines(panels[4], data, 'low_rank', 'num_terms', 'T', t)
  end
end

-- The figure ----------------------------------------------------------------------------------

local function measured(rows, layer)
  local out = {}
  for _, row in ipairs(rows) do
    if row.layer == layer and rows_of.measured(row) and row.fwd then out[#out + 1] = row end
  end
  return out
end

-- What decided: ratios within passes where the two stood side by side, else their intervals.
local RULES = {
  pairs = 'ratios whose interval holds 1 do not count.',
  apart = 'intervals that touch do not count.',
  both = 'ratios whose interval holds 1, and without ratios intervals that touch, do not count.',
}

-- Each point against the dense layer of its own sizes; what was disturbed decides nothing.
local function finding(rows, data)
  local faster, compared, paired = 0, 0, 0
  for _, row in ipairs(data.sketched) do
    local dense = rows_of.dense_for(rows, row, 'fwd')
    if dense and rows_of.counts(dense) and rows_of.counts(row) then
      compared = compared + 1
      if rows_of.paired(row, dense, 'fwd') then paired = paired + 1 end
      if rows_of.verdict(row, dense, 'fwd') == 'lower' then faster = faster + 1 end
    end
  end
  if compared == 0 then return nil end
  return ('Sketched is faster than dense at %d of %d points; %s'):format(faster, compared,
    RULES[paired == 0 and 'apart' or paired == compared and 'pairs' or 'both'])
end

-- The dense layers that belong to the points, with what tells them apart as their name.
local function dense_of(rows, sketched)
  local list, seen = {}, {}
  for _, row in ipairs(sketched) do
    local dense = rows_of.dense_for(rows, row, 'fwd')
    if dense and not seen[dense] then
      seen[dense] = true
      list[#list + 1] = dense
    end
  end
  local names = {}
  for i, dense in ipairs(list) do
    local parts = { 'dense' }
    for _, name in ipairs { 'batch', 'in_features', 'out_features' } do
      if #rows_of.distinct(list, name) > 1 then
        parts[#parts + 1] = ('%s %s'):format(name, tostring(dense[name]))
      end
    end
    names[i] = table.concat(parts, ' ')
  end
  return list, names
end

-- Of what is drawn as an interval of a time, how much is what other minutes differ by; what is held
-- against each other within the sweep is not widened by it.
local function drift_of(rows, name, shown)
  if shown:find '^Cells are ratios' or shown:find '^Points are ratios'
    or not shown:find 'interval' then
    return nil
  end
  local most, key = 0, minutes.column((name:gsub('_gflops$', ''):gsub('_gbps$', '')))
  for _, row in ipairs(rows) do
    if rows_of.measured(row) and type(row[key]) == 'number' then most = math.max(most, row[key]) end
  end
  return most > 0 and ('Intervals hold up to %s for what other minutes differ by.'):format(
    minutes.percent(most)) or nil
end

--- Sentences under a figure: the statistic, how many samples, grades, what is missing.
---@param rows table
---@param name string column shown
---@param shown string|nil what is drawn, with its intervals
---@return table sentences
function M.caption(rows, name, shown)
  shown = shown or 'Points are medians of %s; bars are 95 %% confidence intervals.'
  local out = { shown:format(column.about(name, rows).label) }
  local samples, grades, failures = rows_of.samples(rows, name), rows_of.grades(rows),
    rows_of.failures(rows)
  if samples then out[#out + 1] = samples .. '.' end
  out[#out + 1] = drift_of(rows, name, out[1])
  if grades then out[#out + 1] = 'Grades: ' .. grades .. '.' end
  out[#out + 1] = failures and ('Missing: ' .. failures .. '.') or 'Nothing is missing.'
  return out
end

local function caption(rows, sketched)
  local out = M.caption(rows, 'fwd')
  for _, row in ipairs(sketched) do
    if row.grade == 'D' then
      out[#out + 1] = 'Open circles were disturbed and decide nothing.'
      break
    end
  end
  return out
end

--- Device, commit and date as one line.
---@param opt table
---@param rows table
---@return string text
function M.subtitle(opt, rows)
  local parts = { rows_of.configuration(rows) }
  for _, name in ipairs { 'device', 'commit', 'date' } do
    if opt[name] then parts[#parts + 1] = opt[name] end
  end
  return (table.concat(parts, '  ·  '):gsub('^  ·  ', ''))
end

--- The 2x2 figure of document 002 for one element type.
---@param rows table
---@param opt table checked options; dtype picks one, else there must be one only
---@return table figure
function M.make(rows, opt)
  local who = 'plot.landscape'
  rows_of.check(rows, who)
  local types = rows_of.distinct(rows, 'dtype')
  if opt.dtype then
    column.require(rows, 'dtype', who)
    rows = rows_of.select(rows, { dtype = opt.dtype })
    if #rows == 0 then
      blame.raise(('%s: no row has dtype %s; there are %s'):format(who, opt.dtype,
        table.concat(types, ', ')), 'EARG')
    end
  elseif #types > 1 then
    blame.raise(('%s: the rows have the types %s; choose one with dtype ='):format(who,
      table.concat(types, ', ')), 'EARG')
  end
  for _, name in ipairs { 'fwd', 'param_count', 'peak_memory_mb' } do
    rows_of.check_numbers(rows, name, who)
  end
  local sketched = measured(rows, 'sketched')
  if #sketched == 0 then blame.raise(who .. ': no sketched row was measured', 'EARG') end
  local data = { sketched = sketched, lowrank = measured(rows, 'lowrank'),
    ranks = rows_of.distinct(sketched, 'low_rank') }
  data.dense, data.dense_names = dense_of(rows, sketched)
  data.time, data.memory = value_axis(rows, 'fwd'), value_axis(rows, 'peak_memory_mb')
  data.params = value_axis(rows, 'param_count')
  data.terms_axis = parameter_axis(sketched, 'num_terms')
  data.ranks_axis = parameter_axis(sketched, 'low_rank')
  return figure.new { kind = 'landscape', rows = rows, opt = opt, natural = { 1160, 1000 },
    title = 'Where a sketched linear layer is fast', subtitle = M.subtitle(opt, rows),
    finding = finding(rows, data), caption = caption(rows, sketched), draw = draw(data) }
end

return M
