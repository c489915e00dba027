-- SPDX-License-Identifier: MIT
--
-- History: a measure of each point over the days, one line a point; upright lines where commit or
-- machine changed, which cuts the series; marks where it moved by more than its intervals.

local blame = require 'ridge.blame'
local color = require 'ridge.plot.color'
local column = require 'ridge.plot.column'
local figure = require 'ridge.plot.figure'
local landscape = require 'ridge.plot.landscape'
local rows_of = require 'ridge.plot.rows'
local scale = require 'ridge.plot.scale'
local series = require 'ridge.plot.series'

local M = { summary = 'a measure over the days, with what changed and where it moved' }

M.OPTIONS = { y = { 'string', required = true, doc = 'column upwards' },
  by = 'parameters that name a point, by comma',
  other_protocol = { 'integer', min = 0, doc = 'sweeps left out: of another protocol version' } }

local LINES = 8

--- Does a row say when it was measured, and in which run?
---@param row table
---@return boolean
function M.timed(row) return type(row.began) == 'number' and row.run ~= nil end

local function point_name(row, names)
  local parts = {}
  for _, name in ipairs(names) do
    if row[name] ~= nil then parts[#parts + 1] = name .. ' ' .. tostring(row[name]) end
  end
  return table.concat(parts, ', ')
end

-- Lines by point, each in the order of time; their number in a run stands for the time.
local function lines_of(rows, y, names)
  local by, order = {}, {}
  for _, row in ipairs(rows) do
    if rows_of.measured(row) and type(row[y]) == 'number' and M.timed(row) then
      local name = point_name(row, names)
      if not by[name] then
        by[name] = { name = name, rows = {} }
        order[#order + 1] = by[name]
      end
      table.insert(by[name].rows, row)
    end
  end
  for _, line in ipairs(order) do
    table.sort(line.rows, function(a, b) return a.began < b.began end)
  end
  table.sort(order, function(a, b) return a.name < b.name end)
  return order
end

-- Runs in their order: one place on the axis each, for days are not evenly spread.
local function runs_of(rows)
  local runs, by = {}, {}
  for _, row in ipairs(rows) do
    if M.timed(row) then
      local run = by[row.run]
      if not run then
        run = { name = row.run, began = row.began, commit = row.commit, env = row.env }
        by[row.run] = run
        runs[#runs + 1] = run
      end
      run.began = math.min(run.began, row.began)
    end
  end
  table.sort(runs, function(a, b) return a.began < b.began end)
  for i, run in ipairs(runs) do run.place = i end
  return runs, by
end

--- Where a line moved: the interval of a run lies apart from that of the one before.
---@param line table rows in order
---@param y string
---@return table moves each row, by (ratio)
function M.moves(line, y)
  local out = {}
  for i = 2, #line.rows do
    local a, b = line.rows[i - 1], line.rows[i]
    if a.env == b.env and rows_of.verdict(b, a, y) ~= 'open' then
      out[#out + 1] = { row = b, by = b[y] / a[y] }
    end
  end
  return out
end

local function label_of(run)
  return os.date('!%m-%d', run.began / 1e6) .. (run.commit and ' ' .. run.commit:sub(1, 7) or '')
end

local function draw(data)
  return function(c, t, box)
    local n = #data.runs
    local x = { scale = scale.linear(0.6, n + 0.4), ticks = {}, categories = {}, minor = false,
      label = 'day and commit' }
    for i, run in ipairs(data.runs) do x.ticks[i], x.categories[i] = i, label_of(run) end
    local panel = series.grid(c, t, box, { { x = x, y = series.axis(data.rows, data.y),
      right = 150 } }, 1)[1]
    for i = 2, n do
      local a, b = data.runs[i - 1], data.runs[i]
      if a.env ~= b.env then
        panel:upright(i - 0.5, t.warn)
        panel:note('another machine', { { panel:px(i - 0.5) + 5, panel.y + 10 } },
          { color = t.warn })
      elseif a.commit ~= b.commit then
        panel:upright(i - 0.5, t.rule, { 2, 3 })
      end
    end
    local labels = {}
    for i, line in ipairs(data.lines) do
      local ink, shape, dash = color.category(i, t.name)
      local part, last_env = {}, nil
      local function flush()
        if #part > 0 then
          series.draw(panel, part, { color = ink, shape = shape, dash = dash })
        end
        part = {}
      end
      for _, row in ipairs(line.rows) do
        if last_env and row.env ~= last_env then flush() end
        last_env = row.env
        local lo, hi = rows_of.interval(row, data.y)
        part[#part + 1] = { x = data.place[row.run].place, y = row[data.y], lo = lo, hi = hi,
          grade = row.grade }
      end
      local last = part[#part]
      if last then
        labels[#labels + 1] = { x = panel:px(last.x), y = panel:py(last.y), text = line.name }
      end
      flush()
      for _, move in ipairs(M.moves(line, data.y)) do
        local px, py = panel:px(data.place[move.row.run].place), panel:py(move.row[data.y])
        c:marker('circle', px, py, t.marker + 4, nil, t.warn, 1.8)
      end
    end
    panel:ends(labels)
  end
end

--- History.
---@param rows table with run (name), began (microseconds), commit, env
---@param opt table checked options: y, by
---@return table figure
function M.make(rows, opt)
  local who = 'plot.history'
  rows_of.check(rows, who)
  rows_of.check_numbers(rows, opt.y, who)
  local names = {}
  for name in (opt.by or ''):gmatch '[^,%s]+' do names[#names + 1] = name end
  local lines = lines_of(rows, opt.y, names)
  if #lines == 0 then
    column.require(rows, 'run', who)
    column.require(rows, 'began', who)
    blame.raise(who .. ': no row was measured', 'EARG')
  end
  local moves, moved = 0, {}
  for i, line in ipairs(lines) do
    local n = #M.moves(line, opt.y)
    moves, moved[line], line.order = moves + n, n, i
  end
  -- where not all find room: those that moved, and all are counted
  local more = math.max(0, #lines - LINES)
  table.sort(lines, function(a, b)
    if more > 0 and moved[a] ~= moved[b] then return moved[a] > moved[b] end
    return a.order < b.order
  end)
  for i = #lines, LINES + 1, -1 do lines[i] = nil end
  local runs, place = runs_of(rows)
  local text = landscape.caption(rows, opt.y, 'Points are medians of %s, bands their 95 %% '
    .. 'confidence intervals; rings: the interval lies apart from the one before; dotted lines: '
    .. 'another commit.')
  local others = opt.other_protocol or 0
  if others > 0 then
    text[#text + 1] = ('Left out: %d of this name that another version of the protocol measured.')
      :format(others)
  end
  if more > 0 then text[#text + 1] = ('%d more points are not shown.'):format(more) end
  return figure.new { kind = 'history', rows = rows, opt = opt, natural = { 1120, 640 },
    title = ('%s over time'):format(column.about(opt.y, rows).label:gsub('^%l', string.upper)),
    subtitle = landscape.subtitle(opt, rows),
    finding = ('%d run%s; %d time%s a point moved by more than its interval.'):format(#runs,
      #runs == 1 and '' or 's', moves, moves == 1 and '' or 's'),
    caption = text, draw = draw { rows = rows, lines = lines, runs = runs, place = place,
      y = opt.y } }
end

return M
