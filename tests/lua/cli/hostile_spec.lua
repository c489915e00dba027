-- SPDX-License-Identifier: MIT
-- What a database of somebody else's holds reaches no terminal as a command: every text in it is
-- hostile here, and every command that reads a database is looked at, byte by byte.

local folders = dofile 'tests/lua/store/folder.lua'
local plain = require 'ridge.plain'
local sqlite = require 'ridge.store.sqlite'

-- clears the screen; sets the title; C1 in UTF-8; backspaces; turns the direction
local EVIL = 'e\27[2J\27]0;t\7\194\155\8\127\226\128\174v'

local function commands_in(text)
  return text:match '[%z\1-\8\11-\31\127]' or text:match '\194[\128-\159]'
    or text:match '\226\128[\168-\174]' or text:match '[^\128-\255][\128-\191]'
end

describe('stored text', function()
  it('becomes a line in which nothing commands', function()
    assert.equal([[e\027[2J\027]0;t\007\194\155\008\127\226\128\174v]], plain.line(EVIL))
    assert.equal([[a\nb\tc\rd\000e]], plain.line 'a\nb\tc\rd\0e')
    assert.equal('a\nb\tc\\rd', plain.text 'a\nb\tc\rd')
    for _, good in ipairs { 'plain', 'Größe ≤ 3 µs', '日本語', '🙂', 'a\226\128\153b', '' } do
      assert.equal(good, plain.line(good))
    end
    -- cut off, too long a form, surrogates, beyond Unicode, lone parts
    for _, bad in ipairs { '\195', '\192\128', '\237\160\128', '\244\144\128\128', '\128x',
        '\226\130', '\240\159\153x', '\255', '\194\128', '\226\129\167' } do
      assert.is_nil(plain.line(bad):find '[\128-\255]', bad)
    end
    -- the first and last of each range that commands, and what lies beside them
    for _, c in ipairs { '\194\128', '\194\159', '\226\128\142', '\226\128\143', '\226\128\168',
        '\226\128\174', '\226\129\166', '\226\129\169' } do
      assert.is_nil(plain.line('a' .. c .. 'b'):find '[\128-\255]', c)
    end
    for _, c in ipairs { '\194\160', '\226\128\141', '\226\128\144', '\226\128\167', '\226\128\175',
        '\226\129\165', '\226\129\170' } do
      assert.equal('a' .. c .. 'b', plain.line('a' .. c .. 'b'))
    end
    math.randomseed(5)
    for _ = 1, 5000 do
      local bytes = {}
      for i = 1, math.random(12) do bytes[i] = string.char(math.random(0, 255)) end
      local line = plain.line(table.concat(bytes))
      assert.is_nil(line:find '[%z\1-\31\127]')
      assert.equal(line, plain.line(line)) -- what is clean stays
    end
  end)
end)

describe('a database of hostile texts', function()
  local folder, db, map

  local function run(words, db_file)
    return folders.run(('RIDGE_DB=%s RIDGE_PROGRESS=plain ./ridge %s'):format(db_file or db, words))
  end

  setup(function()
    folder = folders.new()
    db, map = folder .. '/s.db', folder .. '/map.png'
    local file = io.open(folder .. '/tiny.lua', 'w')
    file:write [[
      require('ridge').sweep 'tiny' { space = { a = { 1, 2, 3 }, k = { 'x', 'y' } },
        protocol = 'quick',
        setup = function() return require('ridge').ones(4) end,
        measure = function(p, x, m)
          if p.a == 3 and p.k == 'y' then error 'refused' end
          if p.a == 2 and p.k == 'y' then m:infeasible 'too big' end
          m:metric('square', p.a * p.a, { better = 'lower', unit = 'units' })
          m:time('fwd', function() return x + 1 end)
        end }:run { calibrate = false, progress = 'off' }]]
    file:close()
    run(folder .. '/tiny.lua')
    -- every text of every table, but for what the program itself has to find again
    local st = sqlite.open(db, 'write')
    st:exec 'PRAGMA foreign_keys = 0; PRAGMA ignore_check_constraints = 1'
    local keep = { state = true, role = true, outcome = true, key = true, value = true,
      grade = true, uuid = true, hash = true, kind = true, params = true, space = true, args = true,
      protocol = true, cache = true, better = true, source = true, rules = true, thresholds = true }
    for _, t in ipairs(st:query "SELECT name FROM sqlite_schema WHERE type = 'table'") do
      local columns = 'SELECT name, type FROM pragma_table_info(?)'
      for _, c in ipairs(st:query(columns, t.name)) do
        if c.type == 'TEXT' and not keep[c.name] and t.name ~= 'meta' then
          pcall(st.run, st, ('UPDATE "%s" SET "%s" = "%s" || ? WHERE "%s" IS NOT NULL')
            :format(t.name, c.name, c.name, c.name), EVIL)
        end
      end
    end
    st:run('UPDATE config SET params = replace(params, \'"x"\', ?)',
      ('"%s"'):format(EVIL:gsub('[%z\1-\31]', function(c) return ('\\u%04x'):format(c:byte()) end)))
    assert.matches('\27', st:value 'SELECT name FROM sweep')
    local told = st:value "SELECT message FROM attempt WHERE message LIKE '%refused%'"
    assert.is_truthy(told:find '\27')
    st:close()
  end)
  teardown(function() folders.remove(folder) end)

  it('is shown by every command without one byte that commands', function()
    local name = ("\"$(printf '%s')\""):format(('tiny' .. EVIL):gsub('.', function(c)
      return ('\\%03o'):format(c:byte())
    end):gsub('%%', '%%%%'))
    local n = 0
    local told = 0
    for _, words in ipairs { 'sweeps', 'sweeps --as md', 'query NAME',
        "query NAME 'a, k, fwd, state'", 'query NAME --as md', 'query NAME nosuch', 'query nosuch',
        'query --sql "SELECT * FROM trial"',
        'query --sql "SELECT * FROM attempt"', 'query --sql "SELECT * FROM sweep" --as md',
        'query --sql "SELECT * FROM machine"', 'query --sql "SELECT * FROM metric"',
        'top NAME --by square', 'top NAME --by nosuch', 'top NAME', 'show 1', 'show 2', 'show 3',
        'show 4', 'show 5', 'show 6', 'watch NAME --once', 'db info', 'db check', 'replay 1',
        'plot map NAME -x a -y k -z square -o ' .. map,
        'plot map NAME -x a -y k -z square --inline',
        'plot effects NAME -o ' .. map, 'plot slices NAME -x a -y square --inline',
        'plot nosuch NAME', 'retry NAME', 'ab NAME --a k=x --b k=y', 'calibrate --show',
        'doctor --device cuda', 'compare ' .. db .. ' ' .. db .. ' --match-all',
        ('merge %s/m.db %s'):format(folder, db), 'sweep ' .. folder .. '/tiny.lua --dry-run',
        folder .. '/tiny.lua', "-e 'ridge.sweeps()'", "-e 'ridge.show(1)'",
        "-e 'ridge.query(ridge.sweeps()[1].sweep)'", "-e 'error(ridge.sweeps()[1].sweep, 0)'" } do
      local text = run((words:gsub('NAME', function() return name end)))
      assert.is_nil(commands_in(text), words .. ': ' .. plain.line(text))
      n = n + 1
      if text:find('\\027[2J', 1, true) or text:find('\\27[2J', 1, true) then told = told + 1 end
    end
    assert.equal(42, n)
    assert.is_true(told >= 20, told .. ' of them showed a hostile text at all')
    local found = io.popen('ls -A ' .. folder):read '*a'
    assert.is_nil(found:find '\27')
  end)

  it('keeps its bytes where a program reads them', function()
    local text = run "query --sql 'SELECT name FROM sweep' --as csv"
    assert.is_truthy(text:find(EVIL, 1, true), plain.text(text))
    text = run "query --sql 'SELECT name FROM sweep' --as json"
    assert.is_truthy(text:find('\\u001b[2J', 1, true))
  end)
end)
