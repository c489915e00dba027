-- SPDX-License-Identifier: MIT
--- A copy of a database for others: a view for each sweep, which any program that reads SQLite
--- finds, and without what says who measured, if that is wanted.
--
-- What is taken out is taken out of the file's free pages, too (VACUUM), and what was made from it
-- (hashes, uuids) is drawn anew: a hash lets one try whether a guess is right.  Names of sweeps and
-- parameters, numbers, dates, commits and processors stay; the list that `publish` gives says so.

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local place = require 'ridge.store.place'
local schema = require 'ridge.store.schema'
local sqlite = require 'ridge.store.sqlite'

local M = {}

-- -- What says who --------------------------------------------------------------------------------

-- A path in a text becomes path-1, path-2 ...: the same one by the same name everywhere.
local function redactor()
  local names, n = {}, 0
  local function name(path)
    if not names[path] then
      n = n + 1
      names[path] = 'path-' .. n
    end
    return names[path]
  end
  local function redact(text)
    if type(text) ~= 'string' then return text end
    -- an absolute path, or one below a home, where a word begins
    return ((' ' .. text):gsub('([%s"\'=:,(%[])(~?/[%w_.+@~-][^%s"\'`,;:)%]]*)',
      function(before, path) return before .. name(path) end):sub(2))
  end
  return redact, function() return n end
end

-- Columns of texts in which paths may stand.
local TEXTS = { { 'build', 'flags' }, { 'build', 'compiler' }, { 'build', 'libs' },
  { 'env', 'vars' }, { 'env', 'cpuset' }, { 'attempt', 'message' }, { 'attempt', 'partner' },
  { 'sweep', 'args' }, { 'sweep', 'space' }, { 'config', 'params' }, { 'param', 'txt' },
  { 'comparison', 'a' }, { 'comparison', 'b' }, { 'choice', 'versions' } }

local function redact_texts(db, redact)
  for _, at in ipairs(TEXTS) do
    local name, column = at[1], at[2]
    for _, row in ipairs(db:query(('/* texts */ SELECT DISTINCT %s AS text FROM %s WHERE %s '
        .. "LIKE '%%/%%'"):format(column, name, column))) do
      local text = redact(row.text)
      if text ~= row.text then
        if name == 'config' then -- it is found by what is in it
          db:run('/* no path */ UPDATE config SET params = ?1, sha = ?2 WHERE params = ?3', text,
            sqlite.blob(canonical.hash(text)), row.text)
        else
          db:run(('/* no path */ UPDATE %s SET %s = ?1 WHERE %s = ?2'):format(name, column, column),
            text, row.text)
        end
      end
    end
  end
end

local WHO = [[
  UPDATE machine SET hostname = NULL, facts = '{}', fp = randomblob(16);
  UPDATE device SET uuid = lower(hex(randomblob(8))) WHERE kind <> 'cpu';
  UPDATE env SET fp = randomblob(16);
  UPDATE recipe SET name = NULL, source = '', sha = randomblob(32);
  UPDATE worker SET argv = NULL, lock = '', boot_id = '', pid = 0, uuid = randomblob(16);
  UPDATE attempt SET trace = NULL, printed = NULL, uuid = randomblob(16);
  UPDATE trial SET uuid = randomblob(16);
  UPDATE sweep SET uuid = randomblob(16);
  DELETE FROM meta WHERE key GLOB 'note *';
]]

-- Host names that stand somewhere in the file still: in a name that somebody gave.
local function still_there(path, hosts)
  local found, file = {}, assert(io.open(path, 'rb'))
  local last = ''
  while true do
    local piece = file:read(2 ^ 20)
    if not piece then break end
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
  for _, sweep in ipairs(db:query '/* list sweeps */ SELECT id, name FROM sweep') do
    local name = '"' .. sweep.name:gsub('"', '""') .. '"'
    db:exec('DROP VIEW IF EXISTS main.' .. name, 'drop view') -- of a file that was published before
    db:exec((schema.wide_view(db, sweep.id, sweep.name, true)), 'view of ' .. sweep.name)
  end
end

--- Write a copy of an open database for others.
---@param st table
---@param to string path; a file that is there is not overwritten
---@param anonymous boolean|nil without host names, paths, recipes, command lines, notes
---@return table found sweeps, points, hosts, processors, recipes, recipe_bytes, commands, printed,
---  notes: what is in it; paths: how many were taken out; still: host names that are in it
---  nevertheless, in names that somebody gave
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
    st.db:copy(work)
    local db = sqlite.open(work, 'write')
    local whole, why = pcall(function()
      local hosts, redact, paths = told(db).hosts, redactor()
      db:exec('PRAGMA journal_mode = DELETE', 'one file')
      db:transaction(function()
        if anonymous then
          db:exec(WHO, 'who measured')
          redact_texts(db, redact)
        end
        make_views(db)
      end)
      db:stops(function() db:exec('VACUUM', 'nothing of it stays') end)
      found = told(db)
      found.paths, found.was = paths(), hosts
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
