-- SPDX-License-Identifier: MIT
--- The statements that a command of ridge asks a database, each once, and SQLite's plan for each.
--
--     ./ridge scripts/query_plans.lua best made --for 'min fwd' --db made.db

local sqlite = require 'ridge.store.sqlite'
local store = require 'ridge.store'

local seen, order, path = {}, {}, store.default_path()
local open = sqlite.open

-- Connections that note what they are asked.
sqlite.open = function(...) -- luacheck: ignore 122
  local db = open(...)
  local class = getmetatable(db).__index
  for _, name in ipairs { 'query', 'row', 'value', 'look' } do
    rawset(db, name, function(self, sql, ...)
      if not seen[sql] then seen[sql], order[#order + 1] = true, sql end
      return class[name](self, sql, ...)
    end)
  end
  return db
end

local command = table.remove(arg, 1)
local status = require('ridge.cli.' .. command).main(arg)
sqlite.open = open -- luacheck: ignore 122
for i, word in ipairs(arg) do if word == '--db' then path = arg[i + 1] end end

store.with(path, 'read', function(st)
  for _, sql in ipairs(order) do
    if sql:find 'SELECT' then
      print('-- ' .. (sql:match '^%s*/%*%s*(.-)%s*%*/' or sql:gsub('%s+', ' '):sub(1, 60)))
      -- a plan does not look at what is bound
      local plan = st.db:ask('EXPLAIN QUERY PLAN ' .. (sql:gsub('%?%d*', '1')))
      for _, step in ipairs(plan) do print('     ' .. step.detail) end
    end
  end
end)
os.exit(status)
