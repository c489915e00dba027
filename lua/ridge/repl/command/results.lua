-- SPDX-License-Identifier: MIT
--- %sql: questions to the results database, which is only read.

local blame = require 'ridge.blame'
local colour = require 'ridge.show.colour'
local columns = require 'ridge.show.columns'

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
    return st.db:query(query)
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

return {
  sql = {
    usage = '%sql [--db FILE] [QUERY]', takes = 'words', run = sql,
    about = 'ask the results database; the rows are in _\n'
      .. 'Without QUERY the tables and views. The database is never changed.',
  },
}
