-- SPDX-License-Identifier: MIT
--- `ridge db`: look after a results database.

local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'

local M = {}

M.summary = 'look after a database: ridge db info|check|backup|migrate|pack|publish'
M.usage = 'ridge db info|check|backup|migrate|pack|publish [FILE] [--db FILE]'

local SPEC = {
  about = [[
info      version of the schema, sweeps, rows, bytes
check     SQLite's integrity check and ours; status 1 when something is wrong
backup    a consistent copy into FILE, while others go on measuring
migrate   bring a file of an older ridge up to this one; a copy of it stays beside it
pack      keep sweeps of 20,000 points and more by columns, too, so that best, sweeps and report
          answer at once; a run does it when it ends

publish   a copy in FILE for others: each sweep is a view of its name there, for sqlite3, pandas or
          Datasette; what it gives away is said

FILE is the copy that backup or publish makes, and the database for the others, as --db is.

    ridge db check laptop.db
    ridge db backup copy.db
    ridge db publish share.db --anonymous]],
  rest = 'info|check|backup|migrate|pack|publish [FILE]', most = 2,
  { 'anonymous', false, 'publish: without host names, paths, recipes, command lines, notes' },
  stored.DB,
}

local WHAT = { 'info', 'check', 'backup', 'migrate', 'pack', 'publish' }

local TABLES = { 'sweep', 'trial', 'attempt', 'timing', 'samples', 'metric', 'curve', 'comparison',
  'machine', 'build', 'env', 'ceiling', 'choice' }

-- The database: FILE where it is not the copy, or what --db says; not both.
local function path_of(opt, what, file)
  if what ~= 'backup' and what ~= 'publish' and file then
    if opt.db ~= '' then
      require('ridge.blame').raise(('%s: %s and --db are two databases'):format(what, file), 'EARG')
    end
    return file
  end
  return opt.db ~= '' and opt.db or require('ridge.store').default_path()
end

local function with(path, mode, fn)
  local st = require('ridge.store').open(path, mode)
  local ok, result = pcall(fn, st)
  st:close()
  if not ok then error(result, 0) end
  return result
end

local function info(st)
  local size = st.db:value '/* pages */ PRAGMA page_count'
    * st.db:value '/* page size */ PRAGMA page_size'
  plain.print(('%s: schema %d, %.1f MB\n'):format(st.path,
    st.db:value '/* version */ PRAGMA user_version', size / 2 ^ 20))
  for _, name in ipairs(TABLES) do
    plain.print(('%10d %s\n'):format(st.db:value(
      ('/* rows */ SELECT count(*) AS n FROM main.%s'):format(name)), name))
  end
end

-- What SQLite cannot know: a point that is done has the attempt that says so.  One of what is
-- wrong, what is wrong with it, and how many.
local RULES = {
  { 'point', 'called ok without a finished attempt', [[SELECT count(*) AS n FROM trial t
    LEFT JOIN attempt a ON a.id = t.best_attempt WHERE t.state = 'ok'
    AND (a.outcome IS NULL OR a.outcome <> 'ok')]] },
  { 'attempt', 'of no trial', [[SELECT count(*) AS n FROM attempt a LEFT JOIN trial t
    ON t.id = a.trial_id WHERE t.id IS NULL]] },
  { 'sample list', 'of no timing', [[SELECT count(*) AS n FROM samples s LEFT JOIN timing g
    ON g.id = s.timing_id WHERE g.id IS NULL]] },
  { 'sample list', 'of another length than was written down', [[SELECT count(*) AS n FROM samples
    WHERE length(dur) <> 4 * n OR (at IS NOT NULL AND length(at) <> 8 * n)]] },
}

local function check(st)
  local wrong = 0
  local function say(what)
    wrong = wrong + 1
    plain.print(what, '\n')
  end
  for _, row in ipairs(st.db:aside '/* integrity */ PRAGMA main.integrity_check') do
    if row.integrity_check ~= 'ok' then say(row.integrity_check) end
  end
  for _, row in ipairs(st.db:aside '/* foreign keys */ PRAGMA main.foreign_key_check') do
    say(('%s %s points to a row of %s that is not there'):format(row.table,
      tostring(row.rowid), row.parent))
  end
  for _, rule in ipairs(RULES) do
    local n = st.db:aside('/* rule */ ' .. rule[3])[1].n
    if n > 0 then say(('%s %s'):format(plain.count(n, rule[1]), rule[2])) end
  end
  plain.print(wrong == 0 and st.path .. ': ok\n' or '')
  return wrong == 0 and 0 or 1
end

local function backup(st, to)
  local place = require 'ridge.store.place'
  if place.exists(to) then
    require('ridge.blame').raise(to .. ' is there already; it is not overwritten', 'EARG')
  end
  place.copy(st.db, to)
  plain.print(('%s: copied to %s\n'):format(st.path, to))
end

local function pack(st)
  local done = require('ridge.store.pack').update(st)
  for _, each in ipairs(done) do
    plain.print(('%s: %s packed\n'):format(each.name, plain.count(each.points, 'point')))
  end
  if #done == 0 then plain.print(st.path .. ': nothing to pack\n') end
end

-- A few of a list by name, and how many more.
local function few(list)
  local most = 5
  local text = table.concat(list, ', ', 1, math.min(most, #list))
  return #list > most and ('%s and %d more'):format(text, #list - most) or text
end

local function publish(st, to, anonymous)
  local found = require('ridge.store.publish').write(st, to, anonymous)
  plain.print(('%s: %s, %s; each sweep is a view: %s\n'):format(to,
    plain.count(#found.sweeps, 'sweep'), plain.count(found.points, 'point'), few(found.sweeps)))
  for _, other in ipairs(found.views) do
    plain.print(('the view of the sweep %s is called %s: %s\n'):format(other.name,
      other.view, 'a table or another sweep has that name, in some case'))
  end
  local parts = { 'names of sweeps and parameters and their values, dates, commits, kernels' }
  if #found.processors > 0 then parts[#parts + 1] = 'processors: ' .. few(found.processors) end
  if #found.hosts > 0 then parts[#parts + 1] = 'host names: ' .. few(found.hosts) end
  if found.recipes > 0 then
    parts[#parts + 1] = ('the source of %s, %d bytes'):format(plain.count(found.recipes, 'recipe'),
      found.recipe_bytes)
  end
  if found.commands > 0 then
    parts[#parts + 1] = plain.count(found.commands, 'command line')
  end
  if found.printed > 0 then
    parts[#parts + 1] = ('what %s printed'):format(plain.count(found.printed, 'failed point'))
  end
  if found.notes > 0 then parts[#parts + 1] = plain.count(found.notes, 'note') end
  plain.print('it gives away ', table.concat(parts, '; '), '\n')
  if anonymous then
    plain.print(('taken out: host names, recipes, command lines, what points printed, notes, %s\n')
      :format(plain.count(found.paths, 'path')))
    if #found.still > 0 then
      plain.note(('the host name %s is in it still, in a name or text that somebody gave\n'):format(
        few(found.still)))
    end
  end
end

local function migrate(path)
  require('ridge.store.place').header(path) -- it must be there: writing would make one
  with(path, 'write', function(st)
    plain.print(('%s: schema %d\n'):format(st.path,
      st.db:value '/* version */ PRAGMA user_version'))
  end)
end

--- Do what the first word says.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('db', SPEC, argv, nil, function(opt, rest)
    local what, path = rest[1], path_of(opt, rest[1], rest[2])
    if what == 'info' then
      with(path, 'read', info)
    elseif what == 'check' then
      return with(path, 'read', check)
    elseif opt.anonymous and what ~= 'publish' then
      return stored.fail('db', '--anonymous is for publish')
    elseif what == 'backup' then
      if not rest[2] then return stored.fail('db', 'backup: the name of the copy is missing') end
      with(path, 'read', function(st) backup(st, rest[2]) end)
    elseif what == 'pack' then
      require('ridge.store.place').header(path)
      with(path, 'write', pack)
    elseif what == 'publish' then
      if not rest[2] then return stored.fail('db', 'publish: the name of the copy is missing') end
      with(path, 'read', function(st) publish(st, rest[2], opt.anonymous) end)
    elseif what == 'migrate' then
      migrate(path)
    else
      return stored.fail('db', what and ("'%s' is none of %s%s"):format(what,
        table.concat(WHAT, ', '), require('ridge.near').hint(what, WHAT))
        or 'info, check, backup, migrate, pack or publish is missing')
    end
  end)
end

return M
