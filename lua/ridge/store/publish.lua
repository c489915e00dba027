-- SPDX-License-Identifier: MIT
--- A copy of a database for others: a view for each sweep, which any program that reads SQLite
--- finds, and without what says who measured, if that is wanted.
--
-- What is taken out is taken out of the file's free pages, too (VACUUM), and what was made from it
-- (hashes, uuids) is drawn anew: a hash lets one try whether a guess is right.  Names of sweeps and
-- parameters, numbers, dates, commits and processors stay; the list that `publish` gives says so.

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local core = require 'ridge.ffi.lib'
local pack = require 'ridge.store.pack'
local place = require 'ridge.store.place'
local schema = require 'ridge.store.schema'
local sqlite = require 'ridge.store.sqlite'

local M = {}

-- -- What says who --------------------------------------------------------------------------------

-- A path becomes path-N: the same one by the same name everywhere, one that no text has yet.
local function redactor(first)
  local names, n = {}, 0
  local function name(path)
    if not names[path] then
      n = n + 1
      names[path] = ('path-%d'):format(first + n)
    end
    return names[path]
  end
  -- What a path in a running text ends with, and what it begins behind: 'rows/s' is none.
  local part, before = '[^%s"\'`,;:)%]}<>|]*', '([%s"\'`=:,;(%[{<>|@])'
  local function redact(text)
    text = ' ' .. text
    for _, quote in ipairs { '"', "'", '`' } do -- blanks are part of a quoted path
      text = text:gsub(('(%s)(~?[%%w_.-]*/[^%s\n]*)(%s)'):format(quote, quote, quote),
        function(open, path, close)
          return path:find '^[~/.]' and open .. name(path) .. close or nil
        end)
    end
    text = text:gsub('(%s%-%a+)(/' .. part .. ')', function(flag, path) -- -I/home/ann/include
      return flag .. name(path)
    end)
    text = text:gsub(before .. '(~[%w_.-]*/' .. part .. ')', function(c, p) return c .. name(p) end)
    text = text:gsub(before .. '(%.?%.?/' .. part .. ')', function(c, path)
      return path ~= '/' and c .. name(path) or nil
    end)
    -- where an error was raised: a file of Lua by its line
    text = text:gsub('(%s)([%w_./+~-]+%.lua)(:%d+)', function(c, path, line)
      return c .. name(path) .. line
    end)
    return text:sub(2)
  end
  -- A value of JSON: a text that begins as a path does is one, with its blanks.
  local function within(value)
    if type(value) == 'string' then
      if value:find '^%.?%.?/.' or value:find '^~[%w_.-]*/' then return name(value) end
      return redact(value)
    end
    if type(value) ~= 'table' or value == canonical.null then return value end
    local out = setmetatable({}, getmetatable(value))
    for key, each in pairs(value) do
      out[type(key) == 'string' and redact(key) or key] = within(each)
    end
    return out
  end
  local function any(text, is_value)
    if is_value then return within(text) end
    if text:find '^[{%[]' then
      local ok, value = pcall(canonical.decode, text)
      if ok then
        local changed = within(value)
        local encoded = canonical.encode(changed)
        return encoded ~= canonical.encode(value) and encoded or text
      end
    end
    return redact(text)
  end
  return any, function() return n end
end

-- Every column of texts, of whatever tables a file has.
local function text_columns(db)
  local list = {}
  for _, of in ipairs(db:query [[/* columns */ SELECT t.name AS name, c.name AS "column"
      FROM main.sqlite_schema t, pragma_table_info(t.name) c
      WHERE t.type = 'table' AND t.name NOT GLOB 'sqlite_*' AND upper(c.type) <> 'BLOB']]) do
    list[#list + 1] = of
  end
  return list
end

local function quoted(name) return '"' .. name:gsub('"', '""') .. '"' end

-- The largest N of a path-N that stands somewhere in parameters.
local function highest(db)
  local n = 0
  for _, row in ipairs(db:query [[/* names */ SELECT params AS text FROM config
      WHERE params LIKE '%path-%']]) do
    for found in row.text:gmatch 'path%-(%d+)' do n = math.max(n, tonumber(found)) end
  end
  return n < 2 ^ 40 and n or 0
end

-- Work in Lua, and queries too short for SQLite to look, end at Ctrl-C here.
local function check()
  if core.rg_interrupt_pending() ~= 0 then blame.raise('db publish: interrupted', 'EINTR') end
end

local function redact_texts(db)
  local redact, count = redactor(highest(db))
  db:exec([[CREATE TEMP TABLE told(was TEXT PRIMARY KEY, now TEXT NOT NULL, sha BLOB)]], 'names')
  for _, of in ipairs(text_columns(db)) do
    local name, column = quoted(of.name), quoted(of.column)
    local changed = false
    for _, row in ipairs(db:query(('/* texts */ SELECT DISTINCT %s AS text FROM main.%s '
        .. "WHERE typeof(%s) = 'text' AND (%s GLOB '*/*' OR %s GLOB '*.lua:*')"):format(
        column, name, column, column, column))) do
      check()
      local text = redact(row.text, of.name == 'param')
      if text ~= row.text then
        changed = true
        db:run('/* a name */ INSERT INTO temp.told VALUES(?,?,?)', row.text, text,
          sqlite.blob(canonical.address(text)))
      end
    end
    if changed then
      -- parameters are found by what is in them
      local sha = of.name == 'config' and of.column == 'params'
        and ', sha = (SELECT sha FROM temp.told WHERE was = params)' or ''
      db:exec(('UPDATE main.%s SET %s = (SELECT now FROM temp.told WHERE was = %s)%s '
        .. 'WHERE %s IN (SELECT was FROM temp.told)'):format(name, column, column, sha, column),
        'no path')
      db:exec('DELETE FROM temp.told', 'names')
    end
  end
  db:exec('DROP TABLE temp.told', 'names')
  return count()
end

local WHO = [[
  UPDATE machine SET hostname = NULL, facts = '{}', fp = randomblob(16);
  UPDATE device SET uuid = lower(hex(randomblob(8))) WHERE kind <> 'cpu' OR uuid <> 'cpu';
  UPDATE env SET fp = randomblob(16);
  UPDATE recipe SET name = NULL, source = '', sha = randomblob(32);
  UPDATE worker SET argv = NULL, lock = '', boot_id = '', pid = 0, how = NULL,
    uuid = randomblob(16);
  UPDATE attempt SET trace = NULL, printed = NULL, uuid = randomblob(16);
  UPDATE trial SET uuid = randomblob(16);
  UPDATE sweep SET uuid = randomblob(16), rules = json_remove(rules, '$.typed');
  DELETE FROM meta WHERE key <> 'created_by';
]]

-- Host names that stand somewhere in the file still: in a name that somebody gave.
local function still_there(path, hosts)
  local found, file = {}, assert(io.open(path, 'rb'))
  local last = ''
  while true do
    local piece = file:read(2 ^ 20)
    if not piece then break end
    check()
    local text = last .. piece
    for _, host in ipairs(hosts) do
      if #host >= 3 and text:find(host, 1, true) then found[host] = true end
    end
    last = text:sub(-256)
  end
  file:close()
  local list = {}
  for host in pairs(found) do list[#list + 1] = host end
  table.sort(list)
  return list
end

-- -- What it gives away ---------------------------------------------------------------------------

local function names(db, sql)
  local list = {}
  for i, row in ipairs(db:query(sql)) do list[i] = tostring(row.v) end
  return list
end

local function told(db)
  local function n(sql) return db:value('/* count */ SELECT count(*) FROM ' .. sql) end
  return { sweeps = names(db, '/* names */ SELECT name AS v FROM sweep ORDER BY id'),
    points = n "trial WHERE role = 'point'",
    hosts = names(db, [[/* hosts */ SELECT DISTINCT hostname AS v FROM machine
      WHERE hostname IS NOT NULL ORDER BY 1]]),
    processors = names(db, '/* processors */ SELECT DISTINCT cpu AS v FROM machine ORDER BY 1'),
    recipes = n "recipe WHERE source <> ''", recipe_bytes = db:value(
      '/* bytes */ SELECT coalesce(sum(length(source)), 0) FROM recipe'),
    commands = n 'worker WHERE argv IS NOT NULL',
    printed = n 'attempt WHERE printed IS NOT NULL OR trace IS NOT NULL',
    notes = n "meta WHERE key GLOB 'note *'" }
end

-- -- The copy -------------------------------------------------------------------------------------

local function make_views(db)
  local views, others = schema.view_names(db)
  -- of a file that was published before
  for _, row in ipairs(db:query [[/* views */ SELECT name FROM main.sqlite_schema
      WHERE type = 'view' AND name <> 'result']]) do
    db:exec('DROP VIEW main.' .. quoted(row.name), 'drop view')
  end
  for _, sweep in ipairs(db:query '/* list sweeps */ SELECT id, name FROM main.sweep') do
    db:exec((schema.wide_view(db, sweep.id, sweep.name, true, views[sweep.id])),
      'view of ' .. sweep.name)
  end
  return others
end

--- Write a copy of an open database for others.
---@param st table
---@param to string path; a file that is there is not overwritten
---@param anonymous boolean|nil without host names, paths, recipes, command lines, notes
---@return table found sweeps, points, hosts, processors, recipes, recipe_bytes, commands, printed,
---  notes: what is in it; views: {name =, view =} of sweeps whose view is called otherwise, since
---  SQLite has such a name already; paths: how many were taken out; still: host names that are in
---  it nevertheless, in names that somebody gave
function M.write(st, to, anonymous)
  if place.exists(to) then
    blame.raise(to .. ' is there already; it is not overwritten', 'EARG')
  end
  local work = to .. '.ridge.part'
  local function clear()
    for _, tail in ipairs { '', '-journal', '-wal', '-shm', '.lock' } do os.remove(work .. tail) end
  end
  clear()
  local found
  local ok, err = pcall(function()
    place.copy(st.db, work, to)
    local db = sqlite.open(work, 'write')
    local whole, why = pcall(function()
      local hosts, paths, others = told(db).hosts, 0, nil
      db:exec('PRAGMA journal_mode = DELETE', 'one file')
      -- Ctrl-C ends each of these at once, so that there is time to remove what they made
      check()
      db:stops(function()
        db:transaction(function()
          pack.drop(db) -- it repeats what rows say, and is no table of anybody else
          if anonymous then
            db:exec(WHO, 'who measured')
            paths = redact_texts(db)
          end
          others = make_views(db)
        end)
        db:exec('VACUUM', 'nothing of it stays')
      end)
      found = told(db)
      found.paths, found.was, found.views = paths, hosts, others
    end)
    db:close()
    if not whole then error(why, 0) end
    found.still = anonymous and still_there(work, found.was) or {}
    found.was = nil
    assert(os.rename(work, to))
  end)
  clear()
  if not ok then error(err, 0) end
  return found
end

return M
