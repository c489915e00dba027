-- SPDX-License-Identifier: MIT
-- Pages of sweeps: of none, one and many points, all failed, all disturbed; that nothing stored is
-- a mark, and that they stay small.
local folders = dofile 'tests/lua/store/folder.lua'
local points = dofile 'tests/lua/report/points.lua'
local html = require 'ridge.report.html'
local picture = require 'ridge.sweep.picture'
local report = require 'ridge.report.sweep'
local store = require 'ridge.store'

local VOID = { meta = true, link = true, img = true, source = true }

-- Every tag is closed where it was opened, and attributes are quoted.
local function check(text)
  assert.truthy(text:find '^<!DOCTYPE html>\n<html lang="en">')
  local body = text:gsub('^<!DOCTYPE html>', ''):gsub('<style>.-</style>', '')
  local open = {}
  for slash, name, rest in body:gmatch '<(/?)([%w]*)([^<>]*)>' do
    assert.is_true(name ~= '', rest:sub(1, 80))
    if slash == '/' then
      assert.equal(table.remove(open), name)
    else
      local bare = rest:gsub('[%w-]+="[^"]*"', ''):gsub('%s', '')
      assert.equal('', bare, name)
      for attribute in rest:gmatch '%s([%w-]+)="' do
        assert.is_nil(attribute:find '^on')
      end
      if not VOID[name] then open[#open + 1] = name end
    end
  end
  assert.same({}, open)
  local outside = body:gsub('<[^<>]*>', '')
  assert.is_nil(outside:find '[<>]')
  assert.is_nil(text:find('<script', 1, true))
  assert.is_nil(text:find '[%z\1-\8\11-\31\127]')
  assert.is_true(#text <= report.MOST)
  for tag in body:gmatch '<%w[^<>]*>' do -- nothing is asked for that is not in the page
    for _, to in tag:gmatch '%s(%w+)="([^"]*)"' do assert.is_nil(to:find '^%a+://') end
  end
end

describe('the page of a sweep', function()
  local folder, path

  before_each(function()
    folder = folders.new()
    path = folder .. '/s.db'
  end)
  after_each(function() folders.remove(folder) end)

  local function page(n, opt, wanted)
    points.make(path, n, opt)
    local text, left
    store.with(path, 'read', function(st)
      text, left = report.page(st, 'points', wanted)
    end)
    check(text)
    return text, left
  end

  it('of no points says so', function()
    local text = page(0)
    assert.matches('Nothing of this sweep is measured yet.', text, 1, true)
    assert.is_nil(text:find '<img')
    assert.matches('0 measured of 0 points', text, 1, true)
  end)

  it('of one point has it, and no set', function()
    local text, left = page(1)
    assert.matches('The least fwd is [^<]*101[^<]* at batch=1 kind=', text)
    assert.is_nil(text:find('told from it', 1, true))
    assert.matches('download="points.csv" href="data:text/csv;base64,', text, 1, true)
    assert.same({}, left)
  end)

  it('has pictures light and dark, with their headline beside them', function()
    local text = page(12)
    local n = 0
    for dark, light, alt in text:gmatch('<source media="%(prefers%-color%-scheme: dark%)" '
        .. 'srcset="(data:image/png;base64,[^"]+)"><img src="(data:image/png;base64,[^"]+)" '
        .. 'alt="([^"]+)"') do
      n = n + 1
      assert.not_equal(dark, light)
      assert.is_true(#alt > 10)
    end
    assert.is_true(n >= 2)
    local policy = text:match '<meta http%-equiv="Content%-Security%-Policy" content="([^"]+)">'
    local sha256 = require 'ridge.store.sha256'
    assert.equal(("default-src 'none'; img-src data:; style-src 'sha256-%s'"):format(
      html.base64(sha256.digest(text:match '<style>(.-)</style>'))), policy)
    for _, word in ipairs { 'CPU ', '4f2a91c', 'Protocol', 'Recipe', 'ridge sweep', 'Notes',
        'grade A', 'Arguments' } do
      assert.matches(word, text, 1, true)
    end
  end)

  it('of failed points lists them, and calls none best', function()
    local text = page(60, { state = 'oom' })
    assert.matches('<p>60 oom.</p>', text, 1, true)
    assert.matches('20 more are not listed.', text, 1, true)
    assert.is_nil(text:find '<img')
    assert.matches('All 60 points failed: nothing is measured.', text, 1, true)
    assert.is_nil(text:find 'measured yet')
  end)

  it('of one point that failed says so', function()
    assert.matches('The only point failed: nothing is measured.', page(1, { state = 'crashed' }), 1,
      true)
  end)

  it('of points that were left out says no more than that', function()
    assert.matches('Nothing of this sweep is measured yet.', page(5, { state = 'pruned' }), 1,
      true)
  end)

  it('of points that cannot exist does not say that they failed', function()
    assert.matches('Nothing is measured: 3 of 3 points cannot exist.',
      page(3, { state = 'infeasible' }), 1, true)
  end)

  it('of one disturbed point speaks of one', function()
    local text = page(1, { grade = 'D' })
    assert.matches('The only point with fwd is of grade D', text, 1, true)
    assert.matches('it was measured as 101', text, 1, true)
  end)

  -- A page whose points have a metric in place of times.
  local function of_metric(n, value, better, how)
    points.make(path, n)
    local text, left
    store.with(path, 'write', function(st)
      st.db:exec('DELETE FROM timing', 'no times')
      st.db:exec(("INSERT INTO metric(attempt_id, name, value, better, how) SELECT id, 'score', "
        .. '%s, %s, %s FROM attempt'):format(value, better, how or 'NULL'), 'a metric')
    end)
    store.with(path, 'read', function(st) text, left = report.page(st, 'points') end)
    check(text)
    return text, left
  end

  it('of a metric without a better way says that nobody said, and shows it', function()
    local text = of_metric(3, 'id + 0.5', 'NULL')
    assert.matches('nobody said which way score is better', text, 1, true)
    assert.is_nil(text:find 'measured yet')
    assert.matches('<td class="n">3.5</td>', text, 1, true)
  end)

  it('says by how much values below 0 differ, and why there is no picture of nan', function()
    local text, left = of_metric(60, '-(id % 50) - 1', '1')
    assert.same({}, left)
    assert.matches('width matters most: its values differ by 49, and 16 is the best', text, 1, true)
    os.remove(path)
    text, left = of_metric(2, 'NULL', '-1', "'nan'")
    assert.matches('score has no value that can be compared', text, 1, true)
    assert.same({ 'pictures: row 1 has score = nan; a measured value must be finite' }, left)
  end)

  it('of disturbed points says why, in words, and ranks none', function()
    local text = page(9, { grade = 'D', flags = 'FOREIGN' })
    assert.matches('All 9 points with fwd are of grade D', text, 1, true)
    assert.matches('ridge retry points --grade D', text, 1, true)
    assert.matches(html.escape(require('ridge.measure.flags').describe('FOREIGN').text), text, 1,
      true)
    assert.is_nil(text:find '%f[%w]FOREIGN%f[%W]')
  end)

  it('lists points by what is looked for, those that cannot be told from the best first', function()
    local function listed(n, wanted)
      local trials = {}
      for trial in page(n, nil, { wanted = wanted }):gmatch '<tr><td class="n">(%d+)</td>' do
        trials[#trials + 1] = trial
      end
      os.remove(path)
      return table.concat(trials, ' ')
    end
    assert.equal('9 8 7 6 5 4 3 2 1', listed(9, 'max fwd'))
    assert.equal('1 2 3 4 5 6 7 8 9', listed(9))
    -- by hand: batch is 3 from 100 on, 2 from 50 on, and fwd is 100 and the number
    local wanted = {}
    for _, part in ipairs { { 100, 120 }, { 50, 99 }, { 1, 49 } } do
      for i = part[1], part[2] do wanted[#wanted + 1] = i end
    end
    assert.equal(table.concat(wanted, ' '), listed(120, 'max batch / fwd'))
  end)

  it('has the twenty newest notes, and says how many are older', function()
    points.make(path, 1)
    local text, left
    local notes = require 'ridge.store.notes'
    store.with(path, 'write', function(st)
      for i = 1, 21 do notes.add(st, { id = 1 }, ('note %d.'):format(i)) end
    end)
    store.with(path, 'read', function(st) text, left = report.page(st, 'points') end)
    check(text)
    assert.same({ '2 older notes: ridge note points' }, left)
    assert.is_nil(text:find('note 1.', 1, true))
    assert.truthy(text:find('note 2.', 1, true))
    assert.truthy(text:find('note 21.', 1, true))
  end)

  it('lists disturbed points by their time, and then those that have none', function()
    points.make(path, 60, { grade = 'D' })
    local trials = {}
    store.with(path, 'write', function(st)
      st.db:exec([[UPDATE attempt SET grade = 'A' WHERE id = 60;
        UPDATE timing SET med = 5000 - med WHERE attempt_id % 3 <> 0;
        DELETE FROM timing WHERE attempt_id % 3 = 2]], 'some without a time')
    end)
    store.with(path, 'read', function(st)
      for trial in report.page(st, 'points'):gmatch '<tr><td class="n">(%d+)</td>' do
        trials[#trials + 1] = trial
      end
    end)
    local wanted = { 60 }
    for i = 3, 57, 3 do wanted[#wanted + 1] = i end
    for i = 58, 1, -3 do wanted[#wanted + 1] = i end
    for i = 2, 59, 3 do wanted[#wanted + 1] = i end
    assert.equal(table.concat(wanted, ' '), table.concat(trials, ' '))
  end)

  it('shows a file in which a parameter has the name of a phase', function()
    points.make(path, 3) -- ridge.sweep refuses such names; a file may have any
    local text
    store.with(path, 'write', function(st)
      st.db:exec("UPDATE timing SET phase = 'kind'", 'the same name')
    end)
    store.with(path, 'read', function(st) text = report.page(st, 'points') end)
    check(text)
    assert.equal(2, select(2, text:gsub('<th [^>]*>kind</th>', '')))
  end)

  it('calls no roof a limit that is passed', function()
    points.make(path, 3)
    local text
    store.with(path, 'write', function(st)
      st.db:exec([[INSERT INTO metric(attempt_id, name, value, better) SELECT id, 'fwd_flops', 4e3,
        0 FROM attempt;
        INSERT INTO ceiling(device_id, name, threads, at, value, unit) VALUES(1, 'fma.f32', 2, 1,
          1e10, 'flop/s')]], 'a roof of 400 ns')
    end)
    store.with(path, 'read', function(st) text = report.page(st, 'points') end)
    assert.matches('it takes 25 % of the time that the ceilings allow', text, 1, true)
    assert.is_nil(text:find('limited by', 1, true))
  end)

  it('holds a point against the roofs of the machine that measured it', function()
    points.make(path, 3)
    local text
    store.with(path, 'write', function(st)
      st.db:exec([[INSERT INTO metric(attempt_id, name, value, better) SELECT id, 'fwd_flops', 4e3,
          0 FROM attempt;
        INSERT INTO machine(id, fp, cpu, sockets, cores, threads, isa, l1d, l2, l3) SELECT 2,
          x'02', cpu, sockets, cores, threads, isa, l1d, l2, l3 FROM machine WHERE id = 1;
        INSERT INTO device(id, machine_id, kind, uuid, name) VALUES(2, 2, 'cpu', 'cpu', 'cpu');
        INSERT INTO env(id, fp, machine_id, build_id, device_id, vars) VALUES(2, x'02', 2, 1, 2,
          '{"threads":2}');
        UPDATE attempt SET env_id = 2 WHERE id = 1;
        INSERT INTO ceiling(device_id, name, threads, at, value, unit) VALUES(1, 'fma.f32', 2, 1,
          5e10, 'flop/s'), (2, 'fma.f32', 2, 1, 1e11, 'flop/s'), (2, 'fma.f32', 1, 1, 9e11,
          'flop/s'), (2, 'fma.f32', 4, 1, 9e11, 'flop/s')]], 'another machine')
    end)
    store.with(path, 'read', function(st) text = report.page(st, 'points') end)
    assert.matches('limited by arithmetic and reaches 40 % of that roof', text, 1, true)
    local listed = folders.run(('./ridge best points --db %s'):format(path))
    assert.matches('arithmetic  40 %', listed:match '\n(    1 [^\n]*)', 1, true)
  end)

  it('has the command that runs the space that was run', function()
    points.make(path, 3)
    local text
    store.with(path, 'write', function(st)
      st.db:exec([[UPDATE sweep SET rules = '{"typed":["-P","k=1..3","--where","k > 1"]}',
        args = '{"flag":true,"cold":false,"size_of":3,"$(x)":1}']], 'what was typed')
    end)
    store.with(path, 'read', function(st) text = report.page(st, 'points') end)
    check(text)
    assert.matches(html.escape(" -P k=1..3 --where 'k > 1' -- --'$(x)' 1 --flag --no-cold "
      .. '--size-of 3\n'), text, 1, true)
    for _, rules in ipairs { '[]', '{"typed":3}', '{"typed":[[1]]}', '{"typed":{"a":1}}' } do
      store.with(path, 'write', function(st)
        st.db:run('UPDATE sweep SET rules = ?', rules)
      end)
      store.with(path, 'read', function(st) check((report.page(st, 'points'))) end)
    end
  end)

  it('of 5,000 points is small: what does not fit is said, with what makes it', function()
    local drawn = picture.figure
    finally(function() picture.figure = drawn end) -- luacheck: ignore 122
    local n = 0
    picture.figure = function(kind) -- luacheck: ignore 122
      n = n + 1
      return { png = function() return ('x'):rep(400000) end, finding = kind .. points.EVIL,
        width = function() return 700 end, height = function() return 500 end,
        text = function() return points.EVIL end }
    end
    local text, left = page(5000, { times = 3 })
    assert.is_true(#text > 2 ^ 20)
    local said = table.concat(left, '\n')
    assert.matches('the picture uncertainty: ridge plot uncertainty points', said, 1, true)
    assert.matches('ridge export points --as csv', said, 1, true)
    assert.matches('4800 of 5000 points', said, 1, true)
    assert.matches('Left out', text, 1, true)
    assert.equal(6, n)
    assert.equal(2, select(2, text:gsub('<img', '')))
    assert.equal(201, select(2, text:gsub('<tr>', '')))
  end)

  -- A page of points whose database was changed by SQL.
  local function changed(n, sql)
    for _, tail in ipairs { '', '-wal', '-shm' } do os.remove(path .. tail) end
    points.make(path, n)
    local st, text, left = store.open(path, 'write'), nil, nil
    st.db:exec(sql, 'change')
    st:close()
    store.with(path, 'read', function(r) text, left = report.page(r, 'points') end)
    check(text)
    return text, table.concat(left, '\n')
  end

  it('is small however many columns there are, and however long their names', function()
    local drawn, long = picture.figure, ('"'):rep(300000)
    finally(function() picture.figure = drawn end) -- luacheck: ignore 122
    picture.figure = function() -- luacheck: ignore 122
      return { png = function() return ('x'):rep(400000) end, finding = long,
        width = function() return 700 end, height = function() return 500 end }
    end
    local text, left = changed(100, [[
      WITH RECURSIVE i(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i WHERE i < 60)
        INSERT INTO param SELECT c.id, 'p' || i.i, NULL, replace(hex(zeroblob(50)), '0', '"')
          FROM i, config c;
      UPDATE config SET params = (SELECT json_group_object(name, coalesce(num, txt)) FROM param
        WHERE config_id = config.id);
      INSERT INTO metric SELECT id, ']] .. long .. [[', id, NULL, 0, NULL FROM attempt]])
    assert.is_nil(text:find(('&quot;'):rep(1001), 1, true))
    local rows = select(2, text:gsub('<tr>', '')) - 1
    assert.is_true(rows > 5 and rows < 100)
    assert.matches(('%d of 100 points in the table of points'):format(100 - rows), left, 1, true)
  end)

  it('is made of whatever is stored: arguments that are none, times that are none', function()
    local text = changed(3, [[UPDATE sweep SET args = '"x"', space = '3']])
    assert.matches('ridge sweep', text, 1, true)
    assert.matches('The least fwd is 101', text, 1, true)
    text = changed(3, "UPDATE timing SET phase = 'f%swd'")
    assert.matches('Which point is best is not known: f%swd has no value', text, 1, true)
    changed(3, 'UPDATE timing SET med = 9e999, ci_lo = -9e999, ci_hi = 9e999')
    text = changed(3, "INSERT INTO meta SELECT 'note ' || hex(uuid) || ' 1e300', 'x' FROM sweep")
    assert.matches('<dt>no date</dt>', text, 1, true)
  end)

  it('ranks by what is asked for', function()
    local text = page(3, nil, { wanted = 'max batch / fwd' })
    assert.matches('The most batch / fwd is', text, 1, true)
    local ok, err = pcall(function()
      store.with(path, 'read', function(st) report.page(st, 'points', { wanted = 'max zork' }) end)
    end)
    assert.is_false(ok)
    assert.matches('there is no zork', err.message, 1, true)
  end)
end)

describe('ridge report', function()
  local folder, a, b
  setup(function()
    folder = folders.new()
    a, b = folder .. '/a.db', folder .. '/b.db'
    dofile('tests/lua/store/two_machines.lua').make(a, b)
  end)
  teardown(function() folders.remove(folder) end)

  local function read(name)
    local file = io.open(folder .. '/' .. name, 'rb')
    local text = file and file:read '*a'
    if file then file:close() end
    return text
  end

  it('writes a file, or all of what was there stays', function()
    local host = package.loaded['ridge.host']
    package.loaded['ridge.host'] = host or { is_terminal = function() return false end }
    local main = require('ridge.cli.report').main
    local printed = {}
    local plain = require 'ridge.plain'
    local before = { plain.print, plain.note }
    plain.print = function(...) -- luacheck: ignore 122
      printed[#printed + 1] = table.concat { ... }
    end
    plain.note = plain.print -- luacheck: ignore 122
    finally(function()
      plain.print, plain.note = before[1], before[2] -- luacheck: ignore 122
      package.loaded['ridge.host'] = host
    end)
    assert.equal(0, main { 'widths', '--db', a, '-o', folder .. '/w.html' })
    check(read 'w.html')
    assert.matches('w.html: %d+ KB\n', printed[1])
    -- and its pictures can be drawn again
    local replot = require('ridge.cli.replot').main
    assert.equal(0, replot { folder .. '/w.html', '--picture', '2', '--theme', 'dark' })
    local kind = require('ridge.plot').replot(folder .. '/w-2.png').kind
    assert.equal('effects', kind)
    assert.equal(1, replot { folder .. '/w.html', '--picture', '9' })
    assert.matches('w.html has 2 pictures', printed[#printed], 1, true)
    assert.equal(1, replot { folder .. '/nothing.html' })
    for text, said in pairs { ['===='] = 'broken.html is no page', ['A==='] = 'is no page',
        AAAA = 'picture 1 of ' .. folder .. '/broken.html' } do
      local file = assert(io.open(folder .. '/broken.html', 'w'))
      file:write('<img src="data:image/png;base64,' .. text .. '"')
      file:close()
      assert.equal(1, replot { folder .. '/broken.html' })
      assert.matches(said, printed[#printed], 1, true)
    end
    for _, bytes in ipairs { '', 'a', 'ab', 'abc', ('\0\255x'):rep(99) .. 'y' } do
      assert.equal(bytes, html.bytes(html.base64(bytes)))
    end
    assert.equal(1, main { 'nosuch', '--db', a, '-o', folder .. '/w.html' })
    check(read 'w.html')
    assert.equal(1, main { 'widths', '--db', a, '-o', folder .. '/none/w.html' })
    assert.equal(1, main { 'widths', '--db', '/etc/passwd', '-o', folder .. '/p.html' })
    assert.is_nil(read 'p.html')
    for _, wrong in ipairs { {}, { 'a', 'b' }, { '--compare', a }, { 'widths', '--sweep', 'x' },
        { '--compare', a, b, '--for', 'fwd' }, { 'widths', '--zork' } } do
      assert.equal(1, main(wrong))
    end
    assert.equal(0, main { '--compare', a, b, '-o', folder .. '/both.html' })
    local both = read 'both.html'
    check(both)
    assert.matches('Of 11 timings that both have, in b.db against a.db: 5 faster, 6 open.', both, 1,
      true)
    assert.matches('These are ratios of machines, Other CPU 7 against Test CPU 9000', both, 1, true)
    -- a merged file may hold points of both machines
    store.with(b, 'write', function(st)
      st.db:run('ATTACH ? AS a', a)
      st.db:exec([[INSERT INTO main.machine(id, fp, cpu) SELECT 2, fp, cpu FROM a.machine;
        INSERT INTO main.device(id, machine_id, kind, uuid, name) SELECT 2, 2, kind, uuid, name
          FROM a.device;
        INSERT INTO main.env(id, fp, machine_id, build_id, device_id, vars) SELECT 2, x'77', 2,
          build_id, 2, vars FROM a.env;
        UPDATE main.attempt SET env_id = 2 WHERE id IN (SELECT best_attempt FROM main.trial
          JOIN main.sweep s ON s.id = sweep_id WHERE s.name = 'old')]], 'both machines')
    end)
    assert.equal(0, main { '--compare', a, b, '-o', folder .. '/mixed.html' })
    assert.matches('7 of them are ratios of machines, Other CPU 7 against Test CPU 9000, with all '
      .. 'in which they differ; the others are of one machine', read 'mixed.html', 1, true)
    assert.matches('the middle ratio of times', both, 1, true)
    assert.is_nil(read('mixed.html'):find('the middle ratio of times', 1, true))
    assert.matches('No anchor was measured on both', read 'mixed.html', 1, true)
    assert.matches('ridge compare a.db b.db --match-all', both, 1, true)
    points.make(folder .. '/none.db', 0)
    assert.equal(1, main { '--compare', a, folder .. '/none.db', '-o', folder .. '/n.html' })
    assert.matches('have no point in common', printed[#printed], 1, true)
    assert.is_nil(read 'n.html')
    -- of one name, or of one that a shell would break
    os.execute(("mkdir '%s/it''s here'; cp %s '%s/it''s here/a.db'"):format(folder, b, folder)
      :gsub("''", "'\\''"), nil)
    local other = folder .. "/it's here/a.db"
    assert.equal(0, main { '--compare', a, other, '--sweep', 'widths', '-o', folder .. '/c.html' })
    both = read 'c.html'
    assert.matches(html.escape(("ridge compare %s '%s' --sweep widths --match-all"):format(a,
      (other:gsub("'", "'\\''")))), both, 1, true)
    assert.matches('<h1>' .. html.escape(other) .. ' against', both, 1, true)
  end)

  it('is silent under tidy, where that is installed', function()
    if os.execute 'tidy -v >/dev/null 2>&1' ~= 0 then return pending 'tidy is not installed' end
    local path = folder .. '/evil.db'
    points.make(path, 30)
    store.with(path, 'read', function(st)
      local file = assert(io.open(folder .. '/evil.html', 'w'))
      file:write((report.page(st, 'points')))
      file:close()
    end)
    local pipe = io.popen(('tidy -e -q %s/evil.html 2>&1'):format(folder))
    assert.equal('', pipe:read '*a')
    pipe:close()
  end)
end)
