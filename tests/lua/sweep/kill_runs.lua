-- SPDX-License-Identifier: MIT
-- Kill a sweep at random moments, again and again, and hold what it leaves against a sweep that
-- nobody killed. Killed is one process, the whole group of a sweep with workers, one worker of it
-- after the other, or either of one in several passes. Also a program, for the nightly:
-- luajit kill_runs.lua KILLS [SEED [one|group|worker|passes|brothers]].

local clock = require 'ridge.store.clock'
local folders = dofile 'tests/lua/store/folder.lua'
local sqlite = require 'ridge.store.sqlite'

local M = {}

local ENV = "LUA_PATH='lua/?.lua;lua/?/init.lua;;' "
local CHILD = 'luajit tests/lua/sweep/kill_child.lua '

local WORKERS = 4

-- The command of a sweep; `timeout` makes it a process group and kills all of it.
local function command(how, path, points)
  return ('%s%s %d %d %d %d'):format(CHILD, path, points, how.us, how.workers, how.passes or 1)
end

-- Run the child, for a while or to its end; true when it was still running and was killed.
local function run(how, seconds, path, points)
  local stop = seconds and ('timeout -s KILL %.3f '):format(seconds + 0.001) or ''
  local text, status = folders.run(ENV .. stop .. command(how, path, points))
  assert(status == 137 or status == 0, text)
  return status == 137
end

-- Of the kills of workers those that come at any moment; the others wait until the worker holds its
-- lock file. It has the points of one pass, some hundredths of a second of work behind a start that
-- takes ten times as long on a busy machine: kills at any moment hit a point once in fifty.
local EARLY = 0.25

-- A sweep has no workers before it has started one, and none for a moment between two passes: that
-- is waited for, until the sweep has ended. (A sweep that was let go then had no kill, and another
-- one was begun, for ever on a machine that takes longer to start one than the first moment.)

-- Run the sweep and kill a worker again and again, at most `most` times; how often. Where a machine
-- is so busy that workers die before they come to the sweep, it says so and goes on another time.
local function run_killing_workers(how, random, most, path, points)
  local moments, work = {}, points * how.us / 1e6 / how.workers
  for i = 1, most do
    local early = random() < EARLY
    moments[i] = ('"%.3f %d %s"'):format(early and random() ^ 2 * 0.3 or random() * work,
      math.floor(random() * WORKERS), early and 'early' or 'working')
  end
  local text, status = folders.run(([[%s%s & boss=$!; n=0; code=0
    for moment in %s; do
      set -- $moment; delay=$1; which=$2; when=$3
      [ $when = working ] || sleep $delay
      while set -- $(cat /proc/$boss/task/$boss/children 2>/dev/null); [ $# = 0 ]; do
        readlink /proc/$boss/exe >/dev/null || break 2; sleep 0.005
      done
      shift $((which %% $#))
      if [ $when = working ]; then
        while fds=$(readlink /proc/$1/fd/*); do
          case $fds in *.worker-*) break ;; esac
        done 2>/dev/null
        sleep $delay
      fi
      kill -9 $1 2>/dev/null && n=$((n + 1))
    done
    wait $boss || code=1
    echo "kills $n"; test $code = 0]]):format(ENV, command(how, path, points),
    table.concat(moments, ' ')))
  assert(status == 0 or text:find('(signal 9) before it came to the sweep', 1, true), text)
  if status ~= 0 then assert(not run(how, nil, path, points)) end
  return tonumber(text:match 'kills (%d+)')
end

local KINDS = {
  one = { workers = 1, us = 3000 },
  group = { workers = WORKERS, us = 3000 },
  worker = { workers = WORKERS, us = 3000 },
  passes = { workers = 2, us = 1000, passes = 5 }, -- of two workers; points are a fifth as many
  -- the same, one worker after the other; half as many points, because those that were killed alone
  -- have a process of their own from then on, in each pass
  brothers = { workers = 2, us = 1000, passes = 5 },
}

-- What must be equal in two databases of the same sweep, one line for each thing.
local function rows(db)
  local out = {}
  for _, row in ipairs(db:query [[
      SELECT hex(t.uuid) AS id, c.params, t.state, a.message, g.phase, g.cache, g.med, g.ci_lo,
        g.n, g.flags, g.passes, hex(s.dur) AS dur, hex(s.at) AS at,
        (SELECT group_concat(pass || ' ' || pass_med, ' ') FROM (SELECT p.pass, o.pass_med
          FROM attempt p JOIN timing o ON o.attempt_id = p.id AND o.phase = g.phase
            AND o.cache = g.cache
          WHERE p.series = a.series AND p.outcome = 'ok' ORDER BY p.pass)) AS medians,
        (SELECT group_concat(pass || ' ' || n || ' ' || windows, ' ') FROM (SELECT p.pass, w.n,
          hex(w.dur) AS windows
          FROM attempt p JOIN timing o ON o.attempt_id = p.id AND o.phase = g.phase
            AND o.cache = g.cache JOIN samples w ON w.timing_id = o.id
          WHERE p.series = a.series AND p.outcome = 'ok' ORDER BY p.pass)) AS windows,
        (SELECT group_concat(name || '=' || value, ' ') FROM
          (SELECT name, value FROM metric WHERE attempt_id = a.id ORDER BY name)) AS metrics
      FROM trial t JOIN config c ON c.id = t.config_id JOIN attempt a ON a.id = t.best_attempt
      LEFT JOIN timing g ON g.attempt_id = a.id LEFT JOIN samples s ON s.timing_id = g.id
      ORDER BY 1, 5, 6]]) do
    local line = {}
    for _, name in ipairs { 'id', 'params', 'state', 'message', 'phase', 'cache', 'med', 'ci_lo',
        'n', 'flags', 'passes', 'dur', 'at', 'medians', 'windows', 'metrics' } do
      line[#line + 1] = tostring(row[name])
    end
    out[#out + 1] = table.concat(line, '|')
  end
  return out
end

local function check(db, points)
  local function none(sql, what)
    local n = db:value(sql)
    assert(n == 0, ('%d %s'):format(n, what))
  end
  assert(db:value 'PRAGMA integrity_check' == 'ok', 'the file is damaged')
  none('SELECT count(*) FROM pragma_foreign_key_check', 'broken references')
  none("SELECT count(*) FROM trial WHERE state IN ('pending', 'running')", 'unfinished trials')
  none('SELECT count(*) FROM trial WHERE worker_id IS NOT NULL', 'trials still held')
  none("SELECT count(*) FROM attempt WHERE outcome IN ('running', 'stale')", 'open attempts')
  none([[SELECT count(*) FROM (SELECT 1 FROM attempt WHERE outcome <> 'lost'
    GROUP BY trial_id, pass HAVING count(*) <> 1)]], 'passes of a trial completed twice')
  none('SELECT count(*) FROM worker WHERE ended IS NULL', 'workers without an end')
  none('SELECT count(*) FROM sweep WHERE state <> \'done\'', 'open sweeps')
  none([[SELECT count(*) FROM trial t WHERE tries <> (SELECT count(*) FROM attempt
    WHERE trial_id = t.id)]], 'trials whose tries and attempts differ')
  assert(db:value 'SELECT count(*) FROM trial' == points, 'trials are missing')
  assert(db:value 'SELECT count(*) FROM sweep' == 1, 'not one sweep')
end

--- Kill until so many kills hit a running sweep, and one of them a point; raises at the first thing
--- that is wrong.
---@param kills integer the least
---@param seed integer
---@param points integer
---@param kind string|nil 'one' (default): a sweep in one process; 'group': all processes of one
---  with workers; 'worker': its workers, one after the other; 'passes', 'brothers': as these two,
---  in five passes of two workers
---@return table facts kills, databases, lost (attempts)
function M.run(kills, seed, points, kind)
  local how, folder = KINDS[kind or 'one'], folders.new()
  local ok, err = pcall(function()
    local state = seed
    local function random()
      state = state * 16807 % 2147483647
      return state / 2147483647
    end
    local began = clock.seconds()
    assert(not run(how, nil, folder .. '/reference.db', points))
    local whole = clock.seconds() - began
    local reference = sqlite.open(folder .. '/reference.db', 'read')
    local expected = rows(reference)
    reference:close()
    local facts = { kills = 0, databases = 0, lost = 0 }
    local wanted = kills
    while facts.kills < wanted do
      facts.databases = facts.databases + 1
      local path = ('%s/%d.db'):format(folder, facts.databases)
      if kind == 'worker' or kind == 'brothers' then
        facts.kills = facts.kills
          + run_killing_workers(how, random, wanted - facts.kills, path, points)
      else
        -- moments from the first millisecond of the process to about its end, early ones more often
        while facts.kills < wanted and run(how, random() ^ 2 * whole, path, points) do
          facts.kills = facts.kills + 1
        end
        assert(not run(how, nil, path, points))
      end
      local db = sqlite.open(path, 'read')
      check(db, points)
      local got = rows(db)
      assert(#got == #expected, ('%d rows, not %d'):format(#got, #expected))
      for i = 1, #got do
        assert(got[i] == expected[i], ('row %d: %s\nnot    %s'):format(i, got[i], expected[i]))
      end
      facts.lost = facts.lost + db:value "SELECT count(*) FROM attempt WHERE outcome = 'lost'"
      db:close()
      local list = folders.run('ls -A ' .. folder)
      assert(not list:find 'worker', 'lock files are left: ' .. list)
      -- on a busy machine all moments may lie before the first point: then as many again
      if facts.kills >= wanted and facts.lost == 0 and wanted < 10 * kills then
        wanted = wanted + kills
      end
    end
    return facts
  end)
  folders.remove(folder)
  if not ok then error(err, 0) end
  return err
end

if arg and arg[0] and arg[0]:find 'kill_runs%.lua$' then
  local kills, seed = tonumber(arg[1] or 200), tonumber(arg[2] or os.time() % 2147483646 + 1)
  local kind = arg[3] or 'one'
  io.stderr:write(('killing %d times (%s), seed %d\n'):format(kills, kind, seed))
  local facts = M.run(kills, seed, ({ one = 120, passes = 40, brothers = 20 })[kind] or 300, kind)
  print(('%s: %d kills in %d databases, %d attempts lost, every row as without kills'):format(kind,
    facts.kills, facts.databases, facts.lost))
end

return M
