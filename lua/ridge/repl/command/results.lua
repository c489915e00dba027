-- SPDX-License-Identifier: MIT
--- %sql: questions to the results database, which is only read; %plot: numbers as a picture.

local blame = require 'ridge.blame'
local chart = require 'ridge.show.chart'
local colour = require 'ridge.show.colour'
local columns = require 'ridge.show.columns'
local summary = require 'ridge.show.summary'

local SHOWN = 40 -- rows

local TABLES = [[/* tables */ SELECT name FROM main.sqlite_schema
  WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' UNION ALL
  SELECT name FROM temp.sqlite_schema WHERE type = 'view' ORDER BY name]]

local function sql(session, request)
  local store = require 'ridge.store'
  local path, query = request.rest:match '^%-%-db[= ](%S+)%s*(.*)$'
  path, query = path or store.default_path(), query or request.rest
  local st = store.open(path, 'read')
  local ok, rows, heads = pcall(function()
    if query == '' then return st.db:query(TABLES) end
    return st.db:ask(query)
  end)
  st:close()
  if not ok then
    if blame.is_error(rows) then error(rows, 0) end
    blame.raise(tostring(rows))
  end
  if #rows == 0 then
    session.write(colour.paint('dim', 'no rows') .. '\n')
    return
  end
  local cells = {}
  for i = 1, math.min(SHOWN, #rows) do
    cells[i] = {}
    for k, head in ipairs(heads) do cells[i][k] = rows[i][head] end
  end
  session.write(columns.text(heads, cells) .. '\n')
  if #rows > SHOWN then
    session.write(colour.paint('dim', ('... %d rows more; all of them are in _'):format(
      #rows - SHOWN)) .. '\n')
  end
  session:keep(rows)
end

-- -- %plot -------------------------------------------------------------------------------------

local ROWS = 24 -- of a matrix, at most

--- A tensor or a list as a tensor of at most two axes that can be drawn.
local function drawable(value)
  local ridge = require 'ridge'
  if type(value) == 'table' and (type(value[1]) == 'number' or type(value[1]) == 'table') then
    value = ridge.tensor(value, { dtype = 'f64' })
  end
  if not ridge.is_tensor(value) then
    blame.raise(('%%plot: a tensor or a list of numbers is expected, got %s'):format(
      blame.show(value)))
  end
  local shape = value.shape
  if value.count == 0 or #shape == 0 or #shape > 2 then
    blame.raise(('%%plot: a vector or a matrix is expected, got %s'):format(value:describe()))
  end
  return value, shape
end

local function every(n, limit) return math.max(1, math.ceil(n / limit)) end

local function plot(session, request)
  local n, values = session:values(request.parsed)
  if n == 0 then blame.raise '%plot: an expression is expected' end
  if type(values[1]) == 'table' and type(values[1].draw) == 'function' and values[1].kind then
    if session.shown then return session.shown(1, values) end
    session.write(require('ridge.plot.terminal').show(values[1], { columns = summary.columns(),
      is_terminal = colour.enabled }))
    return
  end
  local x, shape = drawable(values[1])
  local width = summary.columns()
  if #shape == 1 then
    session.write(chart.line(x:to('f64'):tolist(), width) .. '\n')
    return
  end
  local down, across = every(shape[1], ROWS), every(shape[2], math.floor(width / 2))
  local part = x:narrow(1, 1, math.floor((shape[1] - 1) / down) + 1, down)
    :narrow(2, 1, math.floor((shape[2] - 1) / across) + 1, across)
  session.write(chart.field(part:to('f64'):tolist()) .. '\n')
  if down > 1 or across > 1 then
    session.write(colour.paint('dim', ('one row of %d, one column of %d'):format(down, across))
      .. '\n')
  end
end

return {
  plot = {
    usage = '%plot EXPRESSION', takes = 'code', run = plot,
    about = "draw a vector, a matrix, or a picture such as sw:plot 'map'",
  },
  sql = {
    usage = '%sql [--db FILE] [QUERY]', takes = 'words', run = sql,
    about = 'ask the results database; the rows are in _\n'
      .. 'Without QUERY the tables and views. The database is never changed.',
  },
}
