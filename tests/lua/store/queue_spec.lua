-- SPDX-License-Identifier: MIT
-- The queue of trials: claims, fences, workers that die, and what their death proves.

local folders = dofile 'tests/lua/store/folder.lua'
local identity = require 'ridge.store.identity'
local queue = require 'ridge.store.queue'
local results = require 'ridge.store.results'
local store = require 'ridge.store'

local LUAJIT = "LUA_PATH='lua/?.lua;lua/?/init.lua;;' luajit "

local function wanted_of(n, over)
  local wanted = { name = 'q', recipe_name = 'r.lua', recipe = 'code', args = '{}',
    space = '{"params":{"k":[1]},"points":1}', protocol = '{"precision":0.01}', seed = 1,
    n_rejected = 0, trials = {} }
  for i = 1, n do
    wanted.trials[i] = { params = { k = i }, role = 'point', rep = 0, ord = i }
  end
  for key, value in pairs(over or {}) do wanted[key] = value end
  return wanted
end

local function ok_outcome(med, grade)
  return { state = 'ok', grade = grade or 'A', metrics = { { name = 'm', value = med } },
    timings = { { phase = 'fwd', result = { n = 2, inner = 1, med = med, samples = { 1.5, 2.5 },
      at = { 0, 1e9 }, mark = { 0, 3 }, t0_ns = 77 } } } }
end

describe('the queue', function()
  local folder, path, st, sweep, machine, env

  local function prepare(n)
    sweep = identity.ensure(st, wanted_of(n))
    machine = st:machine { cpu = 'c' }
    env = st:env { machine_id = machine,
      device_id = st:device(machine, { kind = 'cpu', uuid = 'cpu', name = 'c' }),
      build_id = st:build { ridge = '1' } }
  end

  before_each(function()
    folder = folders.new()
    path = folder .. '/q.db'
    st = store.open(path, 'write')
    prepare(10)
  end)
  after_each(function()
    st:close()
    folders.remove(folder)
  end)

  local function state_of(trial)
    return st.db:row('SELECT state, tries, crashes, prio, worker_id FROM trial WHERE id=?', trial)
  end

  -- A process that claims n trials, does `last` (Lua code; w is the worker), and is killed.
  local function die(n, last)
    local code = ([[
      local store, queue = require "ridge.store", require "ridge.store.queue"
      local st = store.open("%s", "write")
      local sweep = require("ridge.store.identity").find(st, "q")
      local w = queue.start(st, %d, "child")
      local claims = w:claim(sweep, %d, %d)
      %s
      os.execute("kill -9 $PPID")]]):format(path, machine, n, env, last or '')
    local file = assert(io.open(folder .. '/child.lua', 'w'))
    file:write(code)
    file:close()
    local text, status = folders.run(LUAJIT .. folder .. '/child.lua')
    assert(status == 137, text)
  end

  it('hands out trials in their order, each once', function()
    local w = queue.start(st, machine, 'a')
    local v = queue.start(st, machine, 'b')
    local seen = {}
    for _, claim in ipairs(w:claim(sweep, 4, env)) do seen[#seen + 1] = claim.params.k end
    for _, claim in ipairs(v:claim(sweep, 4, env)) do seen[#seen + 1] = claim.params.k end
    for _, claim in ipairs(w:claim(sweep, 4, env)) do seen[#seen + 1] = claim.params.k end
    assert.same({ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, seen)
    assert.same({}, w:claim(sweep, 4, env))
    assert.equal(10, queue.counts(st, sweep.id).running)
    w:finish 'done'
    v:finish 'done'
  end)

  it('tells a worker which generation of a name is its own', function()
    local first = identity.ensure(st, wanted_of(3, { name = 'g', args = '{"run":1}' }))
    local second = identity.ensure(st, wanted_of(3, { name = 'g', args = '{"run":2}' }), true)
    local function again(run)
      return identity.again(st, second.uuid, wanted_of(3, { name = 'g', args = run }))
    end
    assert.is_nil(again '{"run":1}') -- a loop of the recipe comes by the ones before it again
    assert.equal(second.id, again('{"run":2}').id)
    assert.not_equal(first.id, second.id)
    local ok, err = pcall(again, '{"run":3}')
    assert.is_false(ok)
    assert.matches('was another one; changed: the arguments', err.message)
  end)

  it('gives a point the same seed whenever it is measured', function()
    local w = queue.start(st, machine, 'a')
    local first = w:claim(sweep, 2, env)
    w:give_back(first, 'test')
    local again = w:claim(sweep, 2, env)
    assert.equal(first[1].seed, again[1].seed)
    assert.not_equal(first[1].seed, first[2].seed)
    assert.equal(2, again[1].try)
    w:finish 'done'
  end)

  it('keeps results with all their samples', function()
    local w = queue.start(st, machine, 'a')
    local claims = w:claim(sweep, 1, env)
    assert.equal(0, w:record { { claim = claims[1], outcome = ok_outcome(1.25) } })
    w:finish 'done'
    local row = results.rows(st, sweep.id)[1]
    assert.equal(1.25, row.fwd)
    assert.equal(1.25, row.m)
    assert.equal('ok', row.state)
    assert.equal(1, row.k)
    assert.same({ dur = { 1.5, 2.5 }, at = { 0, 1e9 }, mark = { 0, 3 }, t0 = 77, inner = 1 },
      results.samples(st, claims[1].trial, 'fwd'))
  end)

  it('keeps a result that came too late and does not count it', function()
    local zombie = queue.start(st, machine, 'zombie')
    local late = zombie:claim(sweep, 1, env)
    -- somebody takes the trial away, as recovery would
    st.db:run("UPDATE trial SET state='pending', worker_id=NULL WHERE id=?", late[1].trial)
    local w = queue.start(st, machine, 'w')
    local mine = w:claim(sweep, 1, env)
    assert.equal(late[1].trial, mine[1].trial)
    assert.equal(1, zombie:record { { claim = late[1], outcome = ok_outcome(9) } })
    assert.equal(0, w:record { { claim = mine[1], outcome = ok_outcome(1) } })
    assert.equal(1, zombie:record { { claim = late[1], outcome = { state = 'error' } } }
      and st.db:value "SELECT count(*) FROM attempt WHERE outcome='stale'")
    assert.equal(1, results.rows(st, sweep.id)[1].fwd)
    zombie:finish 'done'
    w:finish 'done'
  end)

  it('writes a block all or nothing', function()
    local w = queue.start(st, machine, 'a')
    local claims = w:claim(sweep, 2, env)
    local bad = ok_outcome(1)
    bad.timings[1].result.med = nil
    assert.has_error(function()
      w:record { { claim = claims[1], outcome = ok_outcome(1) },
        { claim = claims[2], outcome = bad } }
    end)
    assert.equal(0, st.db:value 'SELECT count(*) FROM timing')
    assert.equal('running', state_of(claims[1].trial).state)
    w:finish 'error'
    assert.equal('pending', state_of(claims[1].trial).state)
  end)

  it('leaves living workers alone', function()
    local w = queue.start(st, machine, 'a')
    w:claim(sweep, 3, env)
    assert.equal(0, (queue.recover(st)))
    assert.equal(3, queue.counts(st, sweep.id).running)
    w:finish 'done'
    assert.equal(0, (queue.recover(st)))
  end)

  it('puts the trials of a killed worker back without counting', function()
    for _ = 1, 4 do
      die(3)
      local back, dead = queue.recover(st)
      assert.equal(3, back)
      assert.equal(1, dead)
    end
    assert.equal(10, queue.counts(st, sweep.id).pending)
    assert.equal(0, st.db:value 'SELECT sum(crashes) FROM trial')
    assert.equal(12, st.db:value "SELECT count(*) FROM attempt WHERE outcome='lost'")
    assert.equal('child.lua q.db q.db-shm q.db-wal q.db.lock', folders.list(folder))
  end)

  it('measures what was lost twice last and alone', function()
    die(3)
    queue.recover(st)
    die(3)
    queue.recover(st)
    local w = queue.start(st, machine, 'a')
    local sizes, ks = {}, {}
    repeat
      local claims = w:claim(sweep, 4, env)
      sizes[#sizes + 1] = #claims
      for _, claim in ipairs(claims) do ks[#ks + 1] = claim.params.k end
    until #claims == 0
    assert.same({ 4, 3, 1, 1, 1, 0 }, sizes)
    assert.same({ 4, 5, 6, 7, 8, 9, 10, 1, 2, 3 }, ks)
    w:finish 'done'
  end)

  it('counts a crash of its own doing, and gives up after two', function()
    local crash = [[w:under_way(claims[1].trial, "setup")
      w.lock:note("signal 11\n", queue.CRASH_AT)]]
    die(4, crash)
    assert.equal(3, (queue.recover(st))) -- the three others
    local first = state_of(1)
    assert.same({ 'pending', 1, -2 }, { first.state, first.crashes, first.prio })
    assert.same({ outcome = 'crashed', signal = 'SIGSEGV', message = 'died of SIGSEGV in setup' },
      st.db:row 'SELECT outcome, signal, message FROM attempt WHERE trial_id=1')
    assert.equal(0, state_of(2).crashes)
    -- everything else first
    local w = queue.start(st, machine, 'a')
    local claims = w:claim(sweep, 9, env)
    assert.equal(9, #claims)
    for i, claim in ipairs(claims) do claims[i] = { claim = claim, outcome = ok_outcome(1) } end
    w:record(claims)
    w:finish 'done'
    die(4, crash)
    assert.equal(0, (queue.recover(st)))
    assert.equal('crashed', state_of(1).state)
    local row = results.rows(st, sweep.id)[1]
    assert.same({ 'crashed', 'died of SIGSEGV in setup' }, { row.state, row.reason })
  end)

  it('blames nobody when several were timed together, and takes them apart', function()
    die(4, [[w:under_way(nil, "time") w.lock:note("signal 06\n", queue.CRASH_AT)]])
    assert.equal(4, (queue.recover(st)))
    assert.equal(0, st.db:value 'SELECT sum(crashes) FROM trial')
    assert.equal(4, st.db:value 'SELECT count(*) FROM trial WHERE prio=-2')
  end)

  it('blames nobody for being killed while it waited, and who was killed at work', function()
    local function killed(stage, seen)
      st.db:run "UPDATE trial SET state='ok' WHERE id < 10"
      st.db:run "UPDATE trial SET state='pending', crashes=0, prio=0, worker_id=NULL WHERE id = 10"
      st.db:run 'UPDATE attempt SET outcome="ok"'
      die(1, ('w:under_way(claims[1].trial, "%s")'):format(stage))
      local id = st.db:value 'SELECT max(id) FROM worker'
      assert.equal(stage == 'wait' and 1 or 0, (queue.recover(st, { [id] = seen })))
      local last = st.db:row 'SELECT outcome, signal, message FROM attempt ORDER BY id DESC LIMIT 1'
      return { last.outcome, last.signal or 'none', last.message, state_of(10).state }
    end
    local outside = 'its process was ended from outside'
    assert.same({ 'lost', 'none', outside, 'pending' }, killed('wait', { killed = true }))
    assert.same({ 'lost', 'none', outside, 'pending' }, killed('wait', { oom = true }))
    assert.same({ 'lost', 'SIGKILL', 'killed in time', 'pending' },
      killed('time', { killed = true }))
    assert.same({ 'oom', 'none', 'the kernel ended it in setup: no memory was left', 'oom' },
      killed('setup', { oom = true }))
  end)

  it('does not count what died with the machine', function()
    die(4, [[w:under_way(claims[1].trial, "setup") w.lock:note("signal 11\n", queue.CRASH_AT)]])
    st.db:run "UPDATE worker SET boot_id='before'"
    assert.equal(4, (queue.recover(st)))
    assert.equal(0, st.db:value 'SELECT sum(crashes) FROM trial')
    assert.equal(0, st.db:value 'SELECT sum(prio) FROM trial')
    assert.equal('the machine was restarted', st.db:value 'SELECT how FROM worker')
  end)

  it('measures grade D once more; a failure then takes nothing away', function()
    local w = queue.start(st, machine, 'a')
    local function measure(n, grade, med, state)
      local list = {}
      for i, claim in ipairs(w:claim(sweep, n, env)) do
        local outcome = ok_outcome(med, grade)
        outcome.state = state or 'ok'
        list[i] = { claim = claim, outcome = outcome }
      end
      w:record(list)
      return #list
    end
    assert.equal(2, measure(2, 'D', 1))
    assert.equal(8, measure(8, 'A', 2))
    assert.equal(2, queue.again(st, sweep.id))
    assert.equal(1, measure(1, 'C', 3))
    assert.equal(1, measure(1, 'C', 4, 'oom'))
    assert.equal(0, queue.again(st, sweep.id))
    local rows = results.rows(st, sweep.id)
    assert.same({ 'ok', 'C', 3 }, { rows[1].state, rows[1].grade, rows[1].fwd })
    assert.same({ 'ok', 'D', 1 }, { rows[2].state, rows[2].grade, rows[2].fwd })
    assert.equal(12, st.db:value 'SELECT count(*) FROM attempt')
    w:finish 'done'
  end)

  it('is done when nothing is pending or running', function()
    queue.close(st, sweep.id)
    assert.equal('open', identity.find(st, 'q').state)
    st.db:run "UPDATE trial SET state='ok'"
    queue.close(st, sweep.id)
    assert.equal('done', identity.find(st, 'q').state)
  end)
end)

describe('the identity of a sweep', function()
  local folder, st

  before_each(function()
    folder = folders.new()
    st = store.open(folder .. '/q.db', 'write')
  end)
  after_each(function()
    st:close()
    folders.remove(folder)
  end)

  it('is its content, whatever file it is in', function()
    local first, made = identity.ensure(st, wanted_of(3))
    assert.is_true(made)
    local again, made_again = identity.ensure(st, wanted_of(3))
    assert.is_false(made_again)
    assert.equal(first.uuid, again.uuid)
    assert.equal(3, st.db:value 'SELECT count(*) FROM trial')
    local other = store.open(folder .. '/other.db', 'write')
    assert.equal(first.uuid, identity.ensure(other, wanted_of(3)).uuid)
    assert.same(st.db:query 'SELECT hex(uuid) AS u FROM trial ORDER BY 1',
      other.db:query 'SELECT hex(uuid) AS u FROM trial ORDER BY 1')
    other:close()
  end)

  it('says what changed and offers --new', function()
    identity.ensure(st, wanted_of(3))
    local function changed(over, pattern)
      local ok, err = pcall(identity.ensure, st, wanted_of(3, over))
      assert.is_false(ok)
      assert.matches(pattern, err.message, 1, true)
      assert.matches('--new', err.message, 1, true)
    end
    changed({ recipe = 'other' }, 'the recipe (r.lua)')
    changed({ args = '{"threads":2}' }, 'the arguments (threads: nothing -> 2)')
    changed({ protocol = '{"precision":0.02}' }, 'the protocol (precision: 0.01 -> 0.02)')
    changed({ space = '{"params":{"k":[1,2]},"points":2}' }, 'the space (k: [1] -> [1,2])')
    changed({ space = '{"params":{"k":[1]},"points":2}' }, 'the space (1 -> 2 points)')
    changed({ seed = 2 }, 'the seed (1 -> 2)')
    assert.equal(1, st.db:value 'SELECT count(*) FROM sweep')
  end)

  it('starts another generation when asked, and finds each again by its content', function()
    local first = identity.ensure(st, wanted_of(3))
    local second = identity.ensure(st, wanted_of(3, { seed = 2 }), true)
    assert.equal('q-2', second.name)
    assert.equal(first.id, identity.ensure(st, wanted_of(3)).id)
    assert.equal(second.id, identity.ensure(st, wanted_of(3, { seed = 2 })).id)
    assert.equal('q-3', identity.ensure(st, wanted_of(3), true).name)
    assert.equal('q', identity.find(st, 'q').name)
    assert.is_nil(identity.find(st, 'none'))
  end)

  it('has a name that no other has in another case, as views are found in any', function()
    identity.ensure(st, wanted_of(3))
    local ok, err = pcall(identity.ensure, st, wanted_of(3, { name = 'Q' }))
    assert.is_false(ok)
    assert.matches('already has a sweep called "q", which differs from "Q" in case only',
      err.message, 1, true)
    st:close()
    st = store.open(folder .. '/q.db', 'read')
  end)

  it('refuses names that would hide a table', function()
    for _, bad in ipairs { 'trial', 'Result', 'sqlite_x', '', 'a b', 'a"b', ('x'):rep(61) } do
      assert.has_error(function() identity.check_name(bad) end)
    end
    identity.check_name 'mlp-width.2'
  end)

  it('has a view of its name with a column for each parameter, phase and metric', function()
    local sweep = identity.ensure(st, wanted_of(3))
    local machine = st:machine { cpu = 'c' }
    local env = st:env { machine_id = machine,
      device_id = st:device(machine, { kind = 'cpu', uuid = 'cpu', name = 'c' }),
      build_id = st:build { ridge = '1' } }
    local w = queue.start(st, machine, 'a')
    local claims = w:claim(sweep, 2, env)
    local outcome = ok_outcome(5)
    outcome.timings[1].result.first_ns = 99
    w:record { { claim = claims[1], outcome = outcome },
      { claim = claims[2], outcome = { state = 'infeasible', message = 'no' } } }
    w:finish 'done'
    local reader = store.open(st.path)
    local rows = reader.db:query 'SELECT k, fwd, fwd_first, m, state, reason FROM "q" ORDER BY k'
    assert.same({ { k = 1, fwd = 5, fwd_first = 99, m = 5, state = 'ok' },
      { k = 2, state = 'infeasible', reason = 'no' }, { k = 3, state = 'pending' } }, rows)
    assert.equal(1, reader.db:value "SELECT count(*) FROM result WHERE t_ns = 5 AND cache = 'warm'")
    -- the same names as in Lua
    local view = reader.db:row 'SELECT * FROM "q" WHERE k = 1'
    for name, value in pairs(results.rows(reader, sweep.id)[1]) do
      assert.equal(value, view[name], name)
    end
    reader:close()
  end)
end)
