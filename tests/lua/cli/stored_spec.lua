-- SPDX-License-Identifier: MIT
-- The commands that read a database, as typed: what they print where, and their exit status.

local folders = dofile 'tests/lua/store/folder.lua'
local sqlite = require 'ridge.store.sqlite'

local RECIPE = [[
local ridge = require 'ridge'
ridge.sweep 'squares' {
  space = { k = { 1, 2, 3, 4 } },
  measure = function(p, _, m)
    if p.k == 3 then error('three is not measured') end
    m:metric('square', p.k * p.k, { better = 'lower' })
  end,
}:run { calibrate = false, progress = 'off' }
]]

describe('the command', function()
  local folder, db

  local function ridge(words)
    return folders.run(('RIDGE_DB=%s ./ridge %s'):format(db, words))
  end

  setup(function()
    folder = folders.new()
    db = folder .. '/s.db'
    local file = io.open(folder .. '/squares.lua', 'w')
    file:write(RECIPE)
    file:close()
    ridge(folder .. '/squares.lua')
  end)
  teardown(function() folders.remove(folder) end)

  it('sweeps lists what there is', function()
    local text, status = ridge 'sweeps'
    assert.equal(0, status)
    assert.matches('squares%s+3%s+4%s+0%s+1 error', text)
    assert.matches('^sweep [^\n]* protocol\n', text)
    assert.matches('^squares .* 2\n', text:match '\n(.*)$')
  end)

  it('sweeps says how long one under way still takes, from its last points', function()
    local st = sqlite.open(db, 'write')
    st:exec [[UPDATE attempt SET began = 5000000 * id, ended = 5000000 * (id + 1);
      UPDATE trial SET state = 'running' WHERE state = 'error']]
    local text = ridge 'sweeps'
    st:exec "UPDATE trial SET state = 'error' WHERE state = 'running'"
    assert.matches('squares%s+3%s+4%s+1%s+0:00:25', text) -- five passes of five seconds
    st:close()
  end)

  it('query prints rows, and one sentence for what is wrong', function()
    local text, status = ridge "query squares 'k, square' --where 'k < 3' --sort -k --as csv"
    assert.equal(0, status)
    assert.equal('k,square\n2,4\n1,1\n', text)
    text, status = ridge "query squares 'sqare'"
    assert.equal(1, status)
    assert.matches("did you mean 'square'", text)
    text, status = ridge "query --sql 'DROP TABLE trial'"
    assert.equal(1, status)
    assert.matches('read%-only', text)
    text, status = ridge 'query'
    assert.equal(1, status)
    assert.matches('a sweep is missing', text)
    assert.equal(3, (select(2, (ridge "query --sql 'SELECT square FROM \"squares\" WHERE square'")
      :gsub('%d+', ''))))
  end)

  it('top knows which way is better', function()
    local text, status = ridge 'top squares --by square -n 2 --as csv'
    assert.equal(0, status)
    assert.matches('^trial,k,square,grade\n%d+,1,1,\n%d+,2,4,\n$', text)
  end)

  it('top says what is wrong in what was typed, and keeps its brackets', function()
    for words, says in pairs { ['--by zork'] = 'the sweep squares has no zork\n',
        ['--by trial'] = 'nobody said which way trial is better',
        ["--by square --where 'k =='"] = "at character 5 of 'k =='",
        ["--by square --where '1) or (1'"] = "')' is too much" } do
      local text, status = ridge('top squares ' .. words)
      assert.equal(1, status, words)
      assert.is_truthy(text:find(says, 1, true), words .. ': ' .. text)
    end
  end)

  it('db publish says what it gives away, each where there is any', function()
    local to = folder .. '/public.db'
    local whole = ridge('db publish ' .. to)
    os.remove(to)
    for _, word in ipairs { '; host names: [^;]+', '; the source of 1 recipe, %d+ bytes',
      '; 1 command line', '; what 1 failed point printed' } do
      assert.matches(word, whole)
    end
    assert.not_matches('note', whole)
    local text = ridge('db publish ' .. to .. ' --anonymous')
    os.remove(to)
    local given = text:match '\nit gives away ([^\n]*)\n'
    for _, word in ipairs { 'host name', 'the source of', 'command line', 'printed', 'note' } do
      assert.is_nil(given:find(word, 1, true), word)
    end
    assert.matches('\ntaken out: host names, recipes, command lines, what points printed, notes, '
      .. '1 path\n$', text)
  end)

  it('db looks at the file that it is given, and not at two', function()
    local path = folder .. '/no.db'
    local file = io.open(path, 'w')
    file:write(('no database'):rep(100))
    file:close()
    for _, what in ipairs { 'info', 'check', 'migrate' } do
      local text, status = ridge(('db %s %s'):format(what, path))
      assert.equal(1, status, what)
      assert.matches('no.db is not a results database', text)
      text, status = ridge(('db %s %s --db %s'):format(what, db, path))
      assert.equal(1, status, what)
      assert.matches('are two databases', text)
      text, status = folders.run(('./ridge db %s %s'):format(what, db))
      assert.equal(0, status, what)
      assert.is_truthy(text:find('/s.db: ', 1, true), text)
    end
  end)

  it('is named once in front of what it says', function()
    local text = ridge 'export squares -o .'
    assert.matches("^ridge export: %-o: '%.' cannot be written: it is a folder", text)
    text = ridge 'plot ratio squares -x k -y square --a k=1'
    assert.matches('^ridge plot: two sides are compared', text)
  end)

  it('show tells all of a trial, failed ones too', function()
    local id = ridge "query squares trial --where \"state = 'error'\" --as csv":match '(%d+)\n$'
    local text, status = ridge('show ' .. id)
    assert.equal(0, status)
    assert.matches('squares, error', text)
    assert.matches('three is not measured', text)
    text, status = ridge 'show 4711'
    assert.equal(1, status)
    assert.matches('no trial 4711', text)
    for _, word in ipairs { 'x', '99999999999999999999', '1e3', '-1', '0x1', '1.5' } do
      text, status = ridge('show ' .. word)
      assert.equal(1, status)
      assert.matches(("'%s' is no number of a trial"):format((word:gsub('%-', '%%-'))),
        (text:gsub("unknown option '%-1'.*", "'-1' is no number of a trial")))
    end
  end)

  it('export writes a whole file or none', function()
    local text, status = ridge(('export squares -o %s/out.csv'):format(folder))
    assert.equal(0, status, text)
    local file = io.open(folder .. '/out.csv')
    assert.equal(5, select(2, file:read('*a'):gsub('\n', '')))
    file:close()
    text, status = ridge 'export squares -o /nowhere/out.csv'
    assert.equal(1, status)
    assert.matches('cannot be written', text)
  end)

  it('-o - is standard output', function()
    local text, status = ridge 'export squares --as csv'
    assert.equal(0, status)
    assert.equal(5, select(2, text:gsub('\n', '')))
    assert.equal(text, (ridge 'export squares --as csv -o -'))
    local here = io.popen('ls', 'r')
    assert.is_nil(('\n' .. here:read '*a'):find('\n-\n', 1, true))
    here:close()
    local png = ridge 'plot slices squares -x k -y square -o -'
    assert.equal('\137PNG\r\n\26\n', png:sub(1, 8))
    assert.equal('IEND', png:sub(-8, -5))
    ridge(('plot slices squares -x k -y square -o %s/s.png'):format(folder))
    text = ridge(('replot %s/s.png --theme dark -o -'):format(folder))
    assert.equal('IEND', text:sub(-8, -5))
    text, status = ridge 'trust -o -'
    assert.equal(1, status)
    assert.matches('the path must end in .png', text)
  end)

  it('query knows count(*), and tables say what a time is measured in', function()
    assert.equal('count(*)\n4\n', (ridge "query squares 'count(*)' --as csv"))
    local file = io.open(folder .. '/timed.lua', 'w')
    file:write [[require('ridge').sweep 'timed' { space = { k = { 1 } }, protocol = 'quick',
      setup = function() return require('ridge').ones(4) end,
      measure = function(_, x, m)
        m:time('fwd', function() return x + 1 end)
        m:metric('fwd_count', 3)
      end }:run { calibrate = false, progress = 'off' }]]
    file:close()
    local own = ('RIDGE_DB=%s/timed.db ./ridge '):format(folder)
    folders.run(own .. folder .. '/timed.lua')
    local columns = "query timed 'k, fwd, fwd_p95, median(fwd_lo), count(fwd), fwd_n, fwd_count'"
    assert.matches('^k +fwd %[ns%] +fwd_p95 %[ns%] +median%(fwd_lo%) %[ns%] +count%(fwd%) +fwd_n'
      .. ' +fwd_count\n', (folders.run(own .. columns .. ' --group k')))
    assert.matches('^k,fwd,fwd_p95,median%(fwd_lo%),count%(fwd%),fwd_n,fwd_count\n',
      (folders.run(own .. columns .. ' --group k --as csv')))
    -- its brothers
    assert.matches('trial +k +fwd %[ns%] +fwd_lo %[ns%] +fwd_hi %[ns%] +grade',
      (folders.run(own .. 'top timed --by fwd')))
    assert.matches(' fwd %[ns%] .* fwd_n +', (folders.run(own .. 'export timed --as table')))
    assert.matches('| fwd %[ns%] |', (folders.run(own .. 'export timed --as md')))
    assert.matches(',fwd,', (folders.run(own .. 'export timed')))
  end)

  it('query as a call takes columns as the shell does', function()
    local ask = { query = require('ridge').query }
    local rows = ask.query('squares', 'k, square', { where = 'k < 3', sort = '-k', db = db })
    assert.same({ { k = 2, square = 4 }, { k = 1, square = 1 } }, rows)
    assert.same(rows, ask.query('squares', { columns = 'k, square', where = 'k < 3', sort = '-k',
      db = db }))
    for _, wrong in ipairs { { nil }, { 3 }, { 'squares', 3 }, { 'squares', 'k', 'x' },
        { 'squares', 'k', { columns = 'k', db = db } } } do
      local ok, err = pcall(ask.query, unpack(wrong, 1, 3))
      assert.is_false(ok)
      assert.equal('EARG', err.code)
    end
  end)

  it('merge as a call says what is missing', function()
    local ask = require 'ridge.store.ask'
    for _, wrong in ipairs { {}, { db }, { db, 3 }, { 3, db }, { '', db } } do
      local ok, err = pcall(ask.merge, unpack(wrong))
      assert.is_false(ok)
      assert.matches('^merge: ', err.message)
    end
  end)

  it('every command is a call too, whose mistakes are errors at the line', function()
    local file = io.open(folder .. '/calls.lua', 'w')
    file:write(([[
      local ridge = require 'ridge'
      local db = %q
      ridge.top('squares', { by = 'square', n = 1, db = db })
      ridge.export('squares', { as = 'csv', db = db })
      assert(select('#', ridge.show(1, { db = db })) == 0) -- at the prompt no number behind it
      ridge.db('check', { db = db })
      for word, opts in pairs { ["unknown option '%%-%%-zork'"] = { zork = false, db = db },
          ["unknown option '%%-%%-zork' "] = { zork = {}, db = db },
          ['it is one, not a list'] = { by = { 'square', 'k' }, db = db },
          ['option by is a table, and no list'] = { by = { square = 1 }, db = db } } do
        local ok, err = pcall(ridge.top, 'squares', opts)
        assert(not ok and err.message:find((word:gsub(' $', ''))), word)
      end
      ridge.retry('squares', { state = { 'crashed', 'infeasible' }, db = db })
      ridge.watch('squares', { once = true, db = db })
      for _, name in ipairs { 'retry', 'replay', 'replot', 'doctor', 'compare', 'calibrate' } do
        assert(type(ridge[name]) == 'function', name)
      end
      ridge.show(999, { db = db })]]):format(db))
    file:close()
    local text, status = ridge(folder .. '/calls.lua')
    assert.equal(1, status)
    assert.matches('trial%s+k%s+square', text)
    assert.matches('\ntrial,role,', text)
    assert.matches('1 of squares, error', text)
    assert.matches('error: show: there is no trial 999 in .*\n   at .*calls.lua:19', text)
    os.remove(folder .. '/calls.lua')
  end)

  it('query passes over nothing that stands beside --sql', function()
    for words, named in pairs { ['squares'] = 'squares', ["--where 'k > 1'"] = '--where',
        ['--limit 1'] = '--limit', ['--sort 1'] = '--sort', ['--group k'] = '--group' } do
      local text, status = ridge("query --sql 'SELECT 1' " .. words)
      assert.equal(1, status)
      assert.truthy(text:find(("--sql says all of it, and '%s' is not in it"):format(named), 1,
        true), text)
    end
  end)

  it('retry puts failed points back', function()
    local st = sqlite.open(db, 'write')
    st:exec "UPDATE trial SET crashes = 2 WHERE state = 'error'"
    local tries = st:value "SELECT tries FROM trial WHERE state = 'error'"
    st:close()
    local text, status = ridge 'retry squares --state error'
    assert.equal(0, status)
    -- it may crash as often as a new one before it is given up; its tries go on counting
    assert.equal(('crashes,tries\n0,%d\n'):format(tries), (ridge("query --as csv --sql "
      .. "\"SELECT crashes, tries FROM trial WHERE state = 'pending'\"")))
    assert.matches('1 point of squares', text)
    assert.matches('squares%s+3%s+4%s+0%s+%d', (ridge 'sweeps'))
    ridge(folder .. '/squares.lua')
    assert.matches('1 error', (ridge 'sweeps')) -- it failed again, and both tries are on record
    assert.equal('n\n2\n', (ridge("query --as csv --sql \"SELECT count(*) AS n FROM attempt a "
      .. "JOIN trial t ON t.id = a.trial_id WHERE t.state = 'error'\"")))
  end)

  it('a FIFO is no database and no place for a copy, and nobody waits for it', function()
    local fifo = folder .. '/fifo'
    os.execute(("mkfifo %s; echo '%%save %s' > %s/lines"):format(fifo, fifo, folder))
    -- timeout ends what waits with 124, and only that
    local function at_once(words)
      return folders.run(('RIDGE_DB=%s timeout 20 ./ridge %s'):format(db, words))
    end
    for words, reason in pairs {
      ['sweeps --db ' .. fifo] = 'fifo is not a file', ['db info --db ' .. fifo] = 'is not a file',
      [('merge %s/new.db %s'):format(folder, fifo)] = 'is not a file',
      [('merge %s %s'):format(fifo, db)] = 'is not a file',
      [('compare %s %s --match-all'):format(db, fifo)] = 'is not a file',
      ['db backup ' .. fifo] = 'fifo is there already; it is not overwritten',
      [('--quiet < %s/lines'):format(folder)] = 'there is a file .*/fifo already',
    } do
      local text, status = at_once(words)
      assert.equal(1, status, words .. text)
      assert.matches(reason, text)
    end
    os.remove(fifo)
  end)

  it('a condition may have thousands of terms', function()
    local function condition(op, form, n)
      local terms = {}
      for i = 1, n do terms[i] = form:format(i) end
      return table.concat(terms, op)
    end
    for _, n in ipairs { 2, 3, 101, 600, 3000 } do
      local text, status = ridge "query --sql 'SELECT name FROM sweep LIMIT 1' --as csv"
      assert.equal(0, status, text)
      local name = text:match '\n(%S+)'
      text, status = ridge(('query %s trial --as csv --where "%s"'):format(name,
        condition(' or ', 'trial = %d', n)))
      assert.equal(0, status, text)
      local rows = select(2, text:gsub('\n', '')) - 1
      local all = ridge(('query %s trial --as csv'):format(name))
      assert.equal(math.min(n, select(2, all:gsub('\n', '')) - 1), rows)
      text, status = ridge(('query %s trial --as csv --where "%s"'):format(name,
        condition(' and ', 'trial ~= %d', n)))
      assert.equal(0, status, text)
      assert.equal(select(2, all:gsub('\n', '')) - 1 - rows, select(2, text:gsub('\n', '')) - 1)
    end
  end)

  it('db checks, copies, and finds damage', function()
    assert.equal(0, (select(2, ridge 'db check')))
    assert.matches('4 trial', (ridge 'db info'))
    local copy = folder .. '/copy.db'
    assert.equal(0, (select(2, ridge('db backup ' .. copy))))
    assert.equal(1, (select(2, ridge('db backup ' .. copy))))
    folders.run(([[sqlite3 %s "UPDATE trial SET state = 'ok'" 2>/dev/null ||
      ./ridge -e 'local s = require("ridge.store").open("%s", "write")
      s:within(function() s.db:run("UPDATE trial SET state = \"ok\"") end) s:close()']]):format(
      copy, copy))
    local text, status = folders.run('./ridge db check --db ' .. copy)
    assert.equal(1, status)
    assert.matches('without a finished attempt', text)
    text, status = ridge 'db chek'
    assert.equal(1, status)
    assert.matches("did you mean 'check'", text)
  end)

  it('merge makes one of two', function()
    local text, status = folders.run(('./ridge merge %s/all.db %s && ./ridge sweeps --db %s/all.db')
      :format(folder, db, folder))
    assert.equal(0, status, text)
    assert.matches('squares%s+3%s+4', text)
    assert.equal(1, (select(2, folders.run('./ridge merge x.db'))))
  end)

  it('plot draws a stored sweep, and replot its file', function()
    local png = require 'ridge.plot.png'
    local file = io.open(folder .. '/grid.lua', 'w')
    file:write [[
      local ridge = require 'ridge'
      ridge.sweep 'grid' { space = { k = { 1, 2, 4 }, n = { 8, 16 } },
        measure = function(p, _, m) m:metric('rate', p.k * p.n, { better = 'higher' }) end,
      }:run { calibrate = false, progress = 'off' }]]
    file:close()
    ridge(folder .. '/grid.lua')
    local path = folder .. '/map.png'
    local text, status = ridge('plot map grid -x k -y n -z rate -o ' .. path)
    assert.equal(0, status, text)
    local _, info = png.read_texts(path)
    assert.is_true(info.width > 500)
    text, status = ridge(('replot %s --theme dark --size 1200x900 -o %s/dark.png'):format(path,
      folder))
    assert.equal(0, status, text)
    local _, dark = png.read_texts(folder .. '/dark.png')
    assert.same({ 1200, 900 }, { dark.width, dark.height })
    for words, says in pairs { ['plot mapp grid'] = "did you mean 'map'", ['plot map'] = 'a sweep',
        ['plot map grid -x kk -y n'] = 'column', ['plot map squares'] = 'two parameters',
        ['replot ' .. db] = 'PNG', ['replot ' .. path .. ' --size big'] = '2400x1500',
        ['plot map grid -x k -y n --size 480x400'] = '480x400 is too small to be read' } do
      text, status = ridge(words)
      assert.equal(1, status, words)
      assert.is_truthy(text:find(says, 1, true), words .. ': ' .. text)
    end
  end)

  it('has help with an example', function()
    for _, name in ipairs { 'plot', 'replot', 'query', 'top', 'show', 'sweeps', 'export', 'retry',
        'merge', 'db' } do
      local text, status = ridge(name .. ' --help')
      assert.equal(0, status)
      assert.matches('    ridge ' .. name, text)
    end
  end)
end)

describe('ends of intervals below zero, of older rows', function()
  it('are shown as 0, said, and stay what they are', function()
    local folder = folders.new()
    local db, path = folder .. '/o.db', folder .. '/old.lua'
    local file = io.open(path, 'w')
    file:write [[local ridge = require 'ridge'
      ridge.sweep 'old' { space = { k = { 1, 2 } },
        protocol = { level = 'quick', passes = 1, max_passes = 1, quiet_ns = 0 },
        measure = function(p, _, m) m:time('fwd', function() for _ = 1, 1e3 * p.k do end end) end,
      }:run { calibrate = false, progress = 'off' }]]
    file:close()
    local function ridge(words)
      return folders.run(('RIDGE_DB=%s ./ridge %s'):format(db, words))
    end
    ridge(path)
    assert.is_nil((ridge 'export old --as csv'):find 'below zero')
    local st = sqlite.open(db, 'write')
    st:exec [[UPDATE timing SET ci_lo = -20380, ci_hi = 4151000 WHERE cache <> 'first'
      AND attempt_id = (SELECT best_attempt FROM trial WHERE id = 1)]]
    local text = ridge 'show 1'
    assert.matches('[0 ns .. 4.151 ms]', text, 1, true)
    assert.matches('stored as [-20.38 us .. 4.151 ms]; no time is below 0', text, 1, true)
    text = ridge 'export old --as csv'
    assert.is_nil(text:find '%-20380')
    assert.matches('1 end of an interval is stored below zero', text, 1, true)
    assert.matches('0', (ridge "query old fwd_lo --where 'trial = 1'"), 1, true)
    assert.is_nil((ridge "query old fwd_lo"):find '%-%d')
    assert.equal(-20380, st:value "SELECT min(ci_lo) FROM timing")
    st:close()
    folders.remove(folder)
  end)
end)

describe('samples of a phase that was timed warm and cold', function()
  it('are those of each, in exports and below each time', function()
    local folder = folders.new()
    local db = folder .. '/both.db'
    require('ridge.sweep').sweep 'both' { space = { k = { 1 } }, measure = function(p, _, m)
      m:time('fwd', function() return 10 * p.k end)
    end }:run { db = db, lab = dofile('tests/lua/sweep/cheap_lab.lua').new(), progress = false }
    local st = require('ridge.store').open(db, 'write')
    local attempt = st.db:value 'SELECT best_attempt FROM trial'
    st.db:run([[INSERT INTO timing(attempt_id, phase, clock, cache, n, inner, med)
      SELECT attempt_id, phase, clock, 'cold', 3, 1, 300 FROM timing WHERE cache = 'warm']])
    local clock = st.db:value "SELECT clock FROM timing WHERE cache = 'cold'"
    require('ridge.store.record').samples(st.db, attempt, { phase = 'fwd', clock = clock,
      cache = 'cold', t0 = 0, dur = { 300, 100, 500 }, at = { 1, 2, 3 } })
    st:close()
    local function ridge(words)
      return (folders.run(('RIDGE_DB=%s ./ridge %s'):format(db, words)))
    end
    local warm, cold = 0, {}
    for line in ridge('export both --samples'):gmatch '[^\n]+' do
      if line:find '^1,fwd,warm,' then warm = warm + 1 end
      cold[#cold + 1] = line:match '^1,fwd,cold,%d,%d,(%d+),'
    end
    assert.same({ 20, '300 100 500' }, { warm, table.concat(cold, ' ') })
    assert.matches('fwd cold +300[^\n]*\n[^\n]*\n +▅▁█\n', (ridge 'show 1'))
    folders.remove(folder)
  end)
end)
