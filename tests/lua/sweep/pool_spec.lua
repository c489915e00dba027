-- SPDX-License-Identifier: MIT
-- Several workers, the death of some, and points that get a process of their own.

local folders = dofile 'tests/lua/store/folder.lua'
local sqlite = require 'ridge.store.sqlite'

local ENV = "ulimit -c 0; LUA_PATH='lua/?.lua;lua/?/init.lua;;' "

describe('several workers', function()
  local folder, path

  before_each(function()
    folder = folders.new()
    path = folder .. '/p.db'
  end)
  after_each(function() folders.remove(folder) end)

  local function run(args, env)
    return folders.run(('%s%sluajit tests/lua/sweep/pool_child.lua %s %s'):format(ENV, env or '',
      path, args or ''))
  end

  local function query(sql)
    local db = sqlite.open(path, 'read')
    assert.equal('ok', db:value 'PRAGMA integrity_check')
    local rows = db:query(sql)
    db:close()
    return rows
  end

  local FAILED = [[SELECT DISTINCT json_extract(params, '$.k') AS k, state, message, printed,
    max(crashes, 1) AS crashes
    FROM trial t JOIN config c ON c.id = config_id LEFT JOIN attempt a ON a.id = best_attempt
    WHERE state <> 'ok' ORDER BY 1]]

  it('share a sweep: every point once, all of them at work', function()
    assert.equal('80 of 80, 0 failed\n', (run 'points=40'))
    assert.equal(80, query('SELECT count(*) AS n FROM attempt')[1].n)
    assert.equal(4, query("SELECT count(DISTINCT value) AS n FROM metric WHERE name='pid'")[1].n)
    assert.same({ { how = 'done', n = 4 } },
      query 'SELECT how, count(*) AS n FROM worker GROUP BY how')
    -- the stack of each begins elsewhere: their environments differ in length
    assert.is_true(query("SELECT count(DISTINCT value) AS n FROM metric WHERE name='padding'")[1].n
      > 1)
    assert.equal('done', query('SELECT state FROM sweep')[1].state)
    assert.equal('p.db p.db-shm p.db-wal p.db.lock', folders.list(folder))
    assert.equal('80 of 80, 0 failed\n', (run 'points=40')) -- nothing is left to do
    assert.equal(4, query('SELECT count(*) AS n FROM worker')[1].n)
  end)

  it('measure their shard and nothing else', function()
    local n = tonumber((run 'points=40 shard=2/4'):match '^(%d+) of %1, 0 failed\n$')
    assert.is_true(n > 0 and n < 80)
    assert.equal(n, query('SELECT count(*) AS n FROM attempt')[1].n)
  end)

  it('are processes of one pass each', function()
    local log = folder .. '/log'
    assert.equal('12 of 12, 0 failed\n', (run('points=6 workers=2 passes=3 log=' .. log)))
    local pass_of, n = {}, 0
    for line in io.lines(log) do
      local pid, pass = line:match '^(%d+) (%d)$'
      assert.equal(pass, pass_of[pid] or pass)
      pass_of[pid], n = pass, n + 1
    end
    assert.equal(36, n)
  end)

  it('time one at a time', function()
    local alone = folder .. '/alone'
    folders.run('mkdir ' .. alone)
    local locks = ('RIDGE_LOCKS=%s/locks '):format(folder)
    assert.equal('80 of 80, 0 failed\n', (run('us=2000 lease=1 alone=' .. alone, locks)))
    assert.same({ { flags = 'IMPRECISE' } },
      query "SELECT DISTINCT flags FROM timing WHERE cache='warm'")
  end)

  it('say so when they are told to time together', function()
    local locks = ('RIDGE_LOCKS=%s/locks '):format(folder)
    assert.equal('80 of 80, 0 failed\n', (run('lease=1 timing=shared', locks)))
    assert.same({ { flags = 'IMPRECISE SHARED', grade = 'D' } },
      query "SELECT DISTINCT flags, grade FROM timing WHERE cache='warm'")
    -- D because of that: measuring them again would not help
    assert.same({ { tries = 1 } }, query 'SELECT DISTINCT tries FROM trial')
    assert.equal('p.db p.db-shm p.db-wal p.db.lock', folders.list(folder))
  end)

  it('survive a point that crashes, which is tried twice and keeps its last words', function()
    assert.equal('78 of 80, 2 failed\n', (run 'crash=3'))
    assert.same({ { k = 3, state = 'crashed', crashes = 2, message = 'died of SIGSEGV in measure',
      printed = 'last words of\t3\n' } }, query(FAILED))
  end)

  it('kill a point that hangs', function()
    -- so long that a busy machine does not make the others seem to hang
    assert.equal('78 of 80, 2 failed\n', (run 'hang=3 timeout=3'))
    assert.same({ { k = 3, state = 'timeout', crashes = 1,
      message = 'more than 3 s in measure' } }, query(FAILED))
  end)

  it('are not killed for waiting until another process has timed', function()
    -- somebody else shares the machine for many times what a point may take
    folders.run(('mkdir %s/locks; chmod 1777 %s/locks'):format(folder, folder))
    assert.equal('2 of 2, 0 failed\n', (run('points=1 workers=1 lease=1 timeout=2 hold=5',
      ('RIDGE_LOCKS=%s/locks '):format(folder))))
    -- the first worker did it: nobody was killed in between
    assert.same({ { how = 'done', n = 1 } },
      query 'SELECT how, count(*) AS n FROM worker GROUP BY how')
  end)

  it('give each point its own process once one ran out of memory', function()
    -- one worker, so that what comes before and after is known
    assert.equal('78 of 80, 2 failed\n', (run 'workers=1 oom=3'))
    local rows = query [[SELECT a.worker_id AS id, count(*) AS n, max(a.outcome='oom') AS oom
      FROM attempt a GROUP BY 1 ORDER BY 1]]
    local alone = 0
    for _, row in ipairs(rows) do alone = alone + (row.n == 1 and 1 or 0) end
    assert.equal(1, rows[1].oom)
    assert.equal(alone, #rows - 1)
    assert.equal(80 - rows[1].n, alone)
  end)

  it('infer what more of a parameter would do', function()
    assert.matches('^%d+ of 80, 2 failed\n$', (run 'workers=1 oom=8 monotone=1 isolate=never'))
    local rows = query [[SELECT json_extract(c.params, '$.k') AS k,
      json_extract(c.params, '$.kind') AS kind, json_extract(f.params, '$.k') AS cause,
      json_extract(f.params, '$.kind') AS cause_kind
      FROM trial t JOIN config c ON c.id = t.config_id JOIN trial o ON o.id = t.implied_by
      JOIN config f ON f.id = o.config_id WHERE t.state = 'implied']]
    assert.is_true(#rows > 0)
    for _, row in ipairs(rows) do
      assert.is_true(row.k > 8)
      assert.same({ 8, row.kind }, { row.cause, row.cause_kind })
    end
    assert.equal(0, query("SELECT count(*) AS n FROM trial WHERE state='implied' AND tries>0")[1].n)
  end)

  it('give up a point that is killed again and again, and no other', function()
    assert.equal('18 of 20, 2 failed\n', (run 'points=10 kill=3'))
    assert.same({ 3, 'crashed', 'killed in measure' }, { query(FAILED)[1].k,
      query(FAILED)[1].state, query(FAILED)[1].message })
    for _, row in ipairs(query(FAILED)) do assert.equal(3, row.k) end
  end)

  it('end all when one of them was stopped, and blame no point for it', function()
    local text, status = run 'workers=1 leave=3 timeout=600'
    assert.equal(1, status)
    assert.matches('was interrupted: %d+ of 80 points are saved', text)
    assert.same({}, query "SELECT DISTINCT message FROM attempt WHERE outcome='crashed'")
    assert.equal('80 of 80, 0 failed\n', (run ''))
  end)

  it('are killed with the process that started them, which is no fault of their points', function()
    local text, status = run 'workers=1 hang=3 parent=fails timeout=600'
    assert.equal(1, status)
    assert.matches('the parent failed', text)
    assert.same({ { live = 0 } },
      query "SELECT count(*) AS live FROM attempt WHERE outcome='running'")
    assert.same({}, query "SELECT DISTINCT message FROM attempt WHERE message LIKE 'killed in%'")
    os.remove(path .. '.hangs')
    assert.equal('80 of 80, 0 failed\n', (run ''))
  end)

  it('end the run with what one of them said that cannot go on', function()
    local text, status = run 'broken=1'
    assert.equal(1, status)
    assert.matches('a worker of sweep pool could not go on: [^\n]*this worker is broken', text)
    assert.is_nil(text:find('before it came to the sweep', 1, true)) -- the first one said it
    text, status = run 'absent=1'
    assert.equal(1, status)
    assert.matches('could not go on: it ended %(status 0%) before it came to the sweep; does the '
      .. 'recipe come to sw:run each time%?', text)
    assert.equal('80 of 80, 0 failed\n', (run ''))
  end)

  it('keep what a failing point printed', function()
    run 'fail=3'
    assert.matches('printed before it failed', query(FAILED)[1].printed, 1, true)
    assert.equal('error', query(FAILED)[1].state)
  end)

  it('stop when the budget is spent, and go on another time', function()
    local text = run 'us=20000 budget=0.4'
    assert.matches('^%d+ of 80, 0 failed, budget\n$', text)
    assert.equal('open', query('SELECT state FROM sweep')[1].state)
    assert.equal('80 of 80, 0 failed\n', (run 'us=0'))
    -- what a worker had claimed and not begun is given back
    assert.equal(80, query("SELECT count(*) AS n FROM attempt WHERE outcome='ok'")[1].n)
    assert.same({}, query [[SELECT outcome, message FROM attempt
      WHERE outcome<>'ok' AND NOT (outcome='lost' AND message='the budget was spent')]])
  end)
end)
