-- SPDX-License-Identifier: MIT
-- `ridge autotune` and `ridge choices` as typed: what is measured, kept, printed, and not.

local canonical = require 'ridge.store.canonical'
local folders = dofile 'tests/lua/store/folder.lua'
local ridge = require 'ridge'
local sqlite = require 'ridge.store.sqlite'
local store = require 'ridge.store'

local SWEEP = [[
local ridge = require 'ridge'
local sw = ridge.sweep 'tuned' {
  space = { width = { 33, 48 } }, protocol = 'quick',
  setup = function(p)
    EXTRA
    return { layer = ridge.nn.Linear(p.width, p.width, { seed = 1 }), x = ridge.ones(7, p.width) }
  end,
  measure = function(p, c, m) m:time('fwd', ridge.capture(ridge.inference, c.layer, c.x)) end,
}
sw:run { calibrate = false }
print('read', #sw:results())
]]

describe('ridge autotune', function()
  local folder, db

  local function write(text, name)
    local file = assert(io.open(('%s/%s.lua'):format(folder, name or 'r'), 'w'))
    file:write(text)
    file:close()
  end

  local function tuning(words, env)
    return folders.run(('%s RIDGE_LOCKS=%s/locks RIDGE_DB=%s ./ridge autotune %s/r.lua '
      .. '--progress plain %s'):format(env or '', folder, db, folder, words or ''))
  end

  before_each(function()
    folder = folders.new()
    db = folder .. '/t.db'
    write((SWEEP:gsub('EXTRA', '')))
  end)
  after_each(function() folders.remove(folder) end)

  -- The sizes of all rows, oldest first.
  local function sizes(of)
    local st, out = store.open(of or db), {}
    for i, row in ipairs(st.db:query 'SELECT problem FROM main.choice ORDER BY id') do
      out[i] = row.problem:match '^%S+'
    end
    st:close()
    return out
  end

  local BOTH = { '7x33x33', '7x48x48' }

  it('measures the products of a sweep, keeps and prints them, and nothing else of it', function()
    local text, status = tuning()
    assert.equal(0, status, text)
    assert.same(BOTH, sizes())
    for _, path in ipairs(BOTH) do
      local m, k, n = path:match '(%d+)x(%d+)x(%d+)'
      assert.matches(('\n%s x %s x %s  f32 +1 +%%l+'):format(m, k, n), text)
    end
    local changed = text:match '2 products measured, (%d) by another path than the standard one'
    assert.equal(tonumber(changed),
      select(2, text:gsub('[%d.]+ %[[%d.]+ %.%. [%d.]+%]', ''))) -- each with its gain
    assert.matches('; kept in ' .. db, text, 1, true)
    assert.matches('autotune tuned 2/2', text, 1, true)
    assert.is_nil(text:find('read\t', 1, true)) -- it ends where results are asked for
    local st = store.open(db)
    assert.equal(0, st.db:value 'SELECT count(*) FROM main.sweep')
    local row = st.db:row 'SELECT * FROM main.choice LIMIT 1'
    assert.equal(15, row.rounds)
    local times = canonical.decode(row.times)
    for _, path in ipairs { 'own', 'onednn', 'openblas' } do
      assert.is_true(times[path].lo > 0 and times[path].lo <= times[path].ns)
    end
    st:close()
  end)

  it('measures what is new, and all of it with --again', function()
    tuning '-P width=33'
    assert.same({ '7x33x33' }, sizes())
    local text = tuning()
    assert.same(BOTH, sizes())
    assert.matches('1 product measured, %d by [%l ]+, 1 known before', text)
    assert.matches('m x k x n +type +threads +taken', text)
    text = tuning() -- and no table without a row
    assert.matches('0 products measured, 0 by [%l ]+, 2 known before', text)
    assert.is_nil(text:find('m x k x n', 1, true))
    assert.same(BOTH, sizes())
    text = tuning "--again --where 'width > 40'"
    assert.matches('1 product measured', text)
    assert.same({ '7x33x33', '7x48x48', '7x48x48' }, sizes())
  end)

  it('is what a sweep goes by afterwards', function()
    tuning()
    local text, status = folders.run(('RIDGE_PROGRESS=plain RIDGE_DB=%s ./ridge %s/r.lua'):format(
      db, folder))
    assert.equal(0, status, text)
    assert.matches('2 choices of paths for this machine', text)
    assert.matches('read\t2', text, 1, true)
  end)

  it('keeps in the database that the sweep names, and where --db says', function()
    write((SWEEP:gsub('EXTRA', ''):gsub('calibrate = false', '%0, db = "' .. folder .. '/own.db"')))
    tuning()
    assert.same(BOTH, sizes(folder .. '/own.db'))
    assert.matches('0 products measured[^\n]+ 2 known before', (tuning()))
    tuning(('--db %s/typed.db'):format(folder))
    assert.same(BOTH, sizes(folder .. '/typed.db'))
    assert.same({}, sizes())
  end)

  it('runs a point once that is a partner, too', function()
    write((SWEEP:gsub('EXTRA', ''):gsub("protocol = 'quick',", "%0\n"
      .. '  partner = function(p) return { width = p.width == 33 and 48 or 20 } end,')))
    local text, status = tuning()
    assert.equal(0, status, text)
    assert.matches('autotune tuned 3/3', text, 1, true)
    local found = sizes()
    table.sort(found)
    assert.same({ '7x20x20', BOTH[1], BOTH[2] }, found)
  end)

  it('takes every sweep of a recipe, a program without any, and one that ends itself', function()
    local one = SWEEP:gsub('EXTRA', '')
    local two = one:gsub("'tuned'", "'other'"):gsub('33, 48', '50'):gsub('local sw', 'local sw2')
      :gsub('sw:', 'sw2:'):gsub('local ridge[^\n]+', '')
    write((one:gsub('print[^\n]+', '')) .. two)
    local text, status = tuning()
    assert.equal(0, status, text)
    assert.same({ '7x33x33', '7x48x48', '7x50x50' }, sizes())
    write [[
      local ridge = require 'ridge'
      local a = ridge.ones(9, 10)
      print('sum', a:matmul(ridge.ones(10, 11)):sum():item())
      os.exit(3)]]
    text, status = tuning '--again'
    assert.equal(0, status, text)
    assert.matches('sum\t990', text, 1, true)
    assert.equal('9x10x11', sizes()[4])
    write 'os.exit(5)'
    assert.equal(5, select(2, tuning()))
  end)

  it('goes past points that fail, and says so', function()
    write((SWEEP:gsub('EXTRA', "if p.width == 33 then error 'not this one' end")))
    local text, status = tuning()
    assert.equal(2, status)
    assert.matches('autotune: width=33: [^\n]*not this one', text)
    assert.same({ '7x48x48' }, sizes())
    write((SWEEP:gsub('EXTRA', '')) .. "error 'behind it'")
    assert.equal(0, select(2, tuning())) -- that is never reached
  end)

  it('keeps what it found at Ctrl-C, with status 130', function()
    write("local ffi = require 'ffi' ffi.cdef 'int raise(int);' local n = 0\n"
      .. SWEEP:gsub('33, 48', '33, 48, 50'):gsub('EXTRA',
        'n = n + 1 if n == 2 then ffi.C.raise(2) end'))
    local text, status = tuning()
    assert.equal(130, status, text)
    assert.equal(2, #sizes()) -- the point under way comes to its end
    assert.matches('2 products measured', text)
    text, status = tuning()
    assert.equal(130, status)
    assert.matches('0 products measured[^\n]+ 2 known before', text) -- known points take a turn too
  end)

  it('loses at most the point under way to kill -9', function()
    write("local ffi = require 'ffi' ffi.cdef 'int raise(int);' local n = 0\n"
      .. SWEEP:gsub('EXTRA', 'n = n + 1 if n == 2 then ffi.C.raise(9) end'))
    tuning()
    assert.equal(1, #sizes())
  end)

  it('says what is in the way before anything is run', function()
    for words, pattern in pairs { ['--probe'] = 'the path own is forced %(RIDGE_GEMM%): there is',
      ['--agian'] = "unknown option '%-%-agian'.+; options of the recipe stand after %-%-" } do
      local text, status = tuning(words, 'RIDGE_GEMM=own')
      assert.equal(1, status)
      assert.matches(pattern, text)
    end
    local text, status = folders.run './ridge autotune'
    assert.equal(1, status)
    assert.matches('a recipe is missing', text)
    write('no database', 't')
    os.rename(folder .. '/t.lua', db)
    text, status = tuning()
    assert.equal(1, status)
    assert.matches('is not a results database', text, 1, true)
  end)

  it('measures convolutions where the path of products is forced, and sweeps take them', function()
    local sweep = SWEEP:gsub('ridge%.nn%.Linear.-%b()', function()
      return 'ridge.nn.Conv2d(4, 4, 3, { seed = 1 })'
    end):gsub('ridge%.ones%(7, p%.width%)', 'ridge.ones(2, 4, p.width, 9)'):gsub('EXTRA', '')
    write(sweep)
    local text, status = tuning('', 'RIDGE_GEMM=own')
    assert.equal(0, status, text)
    assert.matches('the path own is forced %(RIDGE_GEMM%): convolutions alone are measured', text)
    assert.matches('\n2 convolutions measured', text)
    assert.equal(2, #sizes())
    text, status = tuning('', 'RIDGE_GEMM=own')
    assert.equal(0, status, text)
    assert.matches('0 products measured[^\n]+ 2 known before', text)
    write((SWEEP:gsub('EXTRA', '')))
    text, status = tuning('', 'RIDGE_GEMM=own') -- products alone: there is nothing
    assert.equal(0, status, text)
    assert.matches('0 products measured', text)
  end)

  it('shows what it found where the disk is full, and goes on the next time', function()
    store.open(db, 'write'):close()
    local words = '-P width=33..64'
    local text, status = tuning(words, "trap '' XFSZ; ulimit -f 66;") -- 33 KB a file
    assert.equal(1, status, text)
    assert.matches('reading or writing failed', text, 1, true)
    local n = tonumber(text:match '(%d+) products measured')
    assert.is_true(n > 2 and n < 32, text)
    assert.is_nil(text:find('kept in', 1, true))
    local kept = #sizes()
    assert.is_true(kept > 0 and kept < n)
    text, status = tuning(words)
    assert.equal(0, status, text)
    assert.matches(('%d products measured'):format(32 - kept), text)
    assert.matches((' %d known before; kept in'):format(kept), text)
    assert.equal(32, #sizes())
  end)

  it('says that a file is read-only before anything is run', function()
    store.open(db, 'write'):close()
    local root = select(2, folders.run('mount --bind ' .. folder .. ' ' .. folder)) == 0
    folders.run(root and 'mount -o remount,bind,ro ' .. folder or ('chmod 444 %s; chmod 555 %s')
      :format(db, folder))
    local text, status = folders.run(('RIDGE_DB=%s ./ridge autotune %s/r.lua'):format(db, folder))
    if root then folders.run('umount -l ' .. folder) end
    folders.run(('chmod 755 %s; chmod 644 %s'):format(folder, db))
    assert.equal(1, status, text)
    assert.matches('is read%-only for this user', text)
    assert.is_nil(text:find('autotune tuned', 1, true))
  end)

  -- -- What is stored -----------------------------------------------------------------------------

  local function choices(words)
    return folders.run(('RIDGE_DB=%s ./ridge choices %s'):format(db, words or ''))
  end

  it('is listed, the newest of each product', function()
    tuning()
    tuning '--again -P width=33'
    local text, status = choices()
    assert.equal(0, status)
    assert.equal(2, select(2, text:gsub('\nproduct +7x%d+x%d+ f32', '')))
    local rows = canonical.decode((choices '--as json')).rows
    assert.equal(2, #rows)
    for _, row in ipairs(rows) do
      assert.is_true(row.ns > 0 and row.at > 1.7e15 and row.rounds == 15)
      if row.path ~= row.standard then assert.is_true(row.gain_lo > 1) end
    end
    choices(('-o %s/c.csv --as csv'):format(folder))
    assert.matches('^operation,problem,path', assert(io.open(folder .. '/c.csv')):read '*a')
  end)

  it('is listed with times that are some: above 0 and finite', function()
    local st = store.open(db, 'write')
    local id = st:machine { cpu = 'x' }
    for i, times in ipairs { '{"ns":0,"ratio":0.5,"ratio_lo":0.4,"ratio_hi":0.8}',
        '{"ns":250,"ratio":0.5,"ratio_lo":0,"ratio_hi":0.8}',
        '{"ns":250,"ratio":0.5,"ratio_lo":0.4,"ratio_hi":1e999}',
        '{"ns":-1,"ratio":0,"ratio_lo":0.4,"ratio_hi":0.8}' } do
      st.db:run([[INSERT INTO choice(uuid, machine_id, versions, operation, problem, path, standard,
        rounds, times, at) VALUES(?, ?, '{}', 'product', ?, 'own', 'onednn', 15, ?, 1)]],
        sqlite.blob(tostring(i)), id, 'p' .. i, '{"own":' .. times .. '}')
    end
    st:close()
    local said = {}
    for problem, gains in choices('--all --as csv'):gmatch '(p%d),own,onednn,([^\n]-),15,1,' do
      said[#said + 1] = problem .. ' ' .. gains
    end
    table.sort(said)
    assert.same({ 'p1 2,1.25,2.5,', 'p2 ,,,250', 'p3 ,,,250', 'p4 ,,,' }, said)
  end)

  it('is listed without a word to the terminal, whatever stands in a file', function()
    local text = choices()
    assert.matches('no results database', text)
    local st = store.open(db, 'write')
    local id = st:machine { cpu = 'x\27[2J' }
    st.db:exec 'PRAGMA ignore_check_constraints = ON'
    for i, times in ipairs { '{"\27[2J":{}}', '\27[2J', '{"\27[2J":{"ns":"\27[2J"}}', '{"a":3}',
        '{}' } do
      st.db:run([[INSERT INTO choice(uuid, machine_id, versions, operation, problem, path, standard,
        rounds, times, at) VALUES(?, ?, ?, ?, ?, ?, ?, 15, ?, ?)]], sqlite.blob(tostring(i)), id,
        'v\27[2J' .. i, 'o\27[2J', 'p\27]0;x\7\255', 'a\27[2J', 's\27[2J', times,
        ({ 1e14, -5, 9e15, 9007199254740991, 0 })[i])
    end
    st:close()
    text = choices()
    assert.matches('nothing is stored of this machine; ridge autotune RECIPE measures it', text)
    for _, form in ipairs { 'table', 'csv', 'json', 'md' } do
      local status
      text, status = choices('--all --as ' .. form)
      assert.equal(0, status, text)
      assert.is_nil(text:find '\27', form)
      assert.equal(5, select(2, text:gsub('0;x', '')), text)
      -- a time from 1970 to 3000 is a date for eyes, and the others are nothing
      assert.equal((form == 'table' or form == 'md') and 3 or 0,
        select(2, text:gsub('%d%d%d%d%-%d%d%-%d%d %d%d:%d%d', '')), text)
    end
    assert.is_nil(ridge.backend.choices()[1])
  end)

  it('tells convolutions from products', function()
    local path = os.tmpname()
    local file = assert(io.open(path .. '.lua', 'w'))
    file:write [[local ridge = require 'ridge'
ridge.nn.Conv2d(3, 8, 3)(ridge.ones(2, 3, 12, 12))
ridge.nn.Linear(20, 30)(ridge.ones(4, 20))]]
    file:close()
    local pipe = io.popen(('./ridge autotune %s.lua --db %s.db 2>&1'):format(path, path))
    local text = pipe:read '*a'
    pipe:close()
    os.execute(('rm -f %s %s.lua %s.db*'):format(path, path, path))
    assert.matches('1 product and 1 convolution measured, ', text)
  end)
end)
