-- SPDX-License-Identifier: MIT
-- What is printed and does not arrive: a full device, a closed standard output, a reader that went
-- away. Every command then ends with a status that is no success, and one sentence.

local folders = dofile 'tests/lua/store/folder.lua'

describe('what is printed and lost is said', function()
  local folder, db

  setup(function()
    folder = folders.new()
    db = folder .. '/s.db'
    local function put(name, text)
      local file = io.open(folder .. '/' .. name, 'w')
      file:write(text)
      file:close()
    end
    put('tiny.lua', [[
      require('ridge').sweep 'tiny' { space = { a = { 1, 2, 3 }, b = { 1, 2 } }, protocol = 'quick',
        setup = function() return { x = require('ridge').ones(4) } end,
        measure = function(p, c, m)
          m:time('fwd', function() return c.x + p.a end)
          m:metric('square', p.a * p.b, { better = 'lower' })
        end,
      }:run { calibrate = false, progress = 'off' }]])
    put('says.lua', 'print "hello"')
    put('much.lua', 'for i = 1, 1e5 do print(i) end')
    put('leaves.lua', 'print "hello" os.exit(0)')
    put('true.lua', 'print "hello" os.exit(true)')
    put('none.lua', 'print "hello" os.exit()')
    local text, status = folders.run(('RIDGE_DB=%s ./ridge %s/tiny.lua'):format(db, folder))
    assert.equal(0, status, text)
  end)
  teardown(function() folders.remove(folder) end)

  -- both streams of a command whose standard output is sent elsewhere, and its status
  local function sent(words, where)
    return folders.run(('RIDGE_DB=%s RIDGE_HISTORY= sh -c \'cd %s; exec "$0" %s %s\' "$PWD/ridge"')
      :format(db, folder, words:gsub("'", [['\'']]), where))
  end

  local WORDS = { '--help', '--version', 'list', 'help', 'help sweep', 'help ridge.nn.Linear',
    '-e 1+1', '-e "print(1)"', 'says.lua', 'much.lua', 'leaves.lua', 'true.lua', 'none.lua',
    '- < says.lua', '< says.lua', 'run says.lua', 'sweeps', 'sweeps --as json', 'query tiny',
    'query tiny a --as csv', 'query --sql "SELECT 1"', 'top tiny --by square', 'show 1',
    'export tiny', 'export tiny --as json', 'export tiny --samples', 'db info', 'db check',
    'watch tiny --once', 'retry tiny', 'sweep tiny.lua --dry-run', 'doctor --device cuda',
    'plot map tiny -x a -y b -z square -o map.png', 'plot map tiny -x a -y b -z square --inline' }
  local GRADES = { ['top tiny --by square'] = true } -- says on standard error how it is graded

  for _, words in ipairs(WORDS) do
    it('of: ridge ' .. words, function()
      local text, status = sent(words, '')
      assert.is_true(status == 0 or words:find 'device cuda' ~= nil and status == 1, text)
      assert.not_equal('', text)
      for where, reason in pairs { ['> /dev/full'] = 'No space left on device',
          ['>&-'] = 'it is closed' } do
        text, status = sent(words, where)
        assert.equal(1, status, words .. where)
        local sentence = ('ridge: standard output: %s\n'):format(reason)
        assert.equal(sentence, GRADES[words] and text:sub(-#sentence) or text)
      end
    end)
  end

  it('of the help of every command', function()
    local names, n = folders.run './ridge --help', 0
    for name in names:match('\ncommands\n(.*)'):gmatch '  (%l[%l-]*) [^\n]*\n' do
      local text, status = sent(name .. ' --help', '> /dev/full')
      assert.equal(1, status, name)
      assert.matches('ridge: standard output: No space left on device\n$', text)
      n = n + 1
    end
    assert.is_true(n >= 22)
  end)

  it('but a status of its own stays, and so does what printed nothing', function()
    assert.equal(3, (select(2, sent('-e "print(1) os.exit(3)"', '> /dev/full'))))
    assert.equal(1, (select(2, sent('-e "print(1) os.exit(false)"', '> /dev/full'))))
    assert.same({ '', 0 }, { sent('-e "x = 1"', '>&-') })
    assert.same({ '', 0 }, { sent('export tiny -o out.csv', '>&-') })
    assert.same({ '', 0 }, { sent('-e "os.exit()"', '> /dev/full') })
  end)

  it('nothing that is printed goes into a file that was opened since', function()
    sent([[-e "f = io.open('opened', 'w') print 'lost' f:write 'kept' f:close()"]], '>&-')
    local file = io.open(folder .. '/opened')
    assert.equal('kept', file:read '*a')
    file:close()
  end)

  it('input that never ends does, when nobody reads what comes of it', function()
    local text, status = folders.run(
      [[sh -c 'yes 1+1 | { ./ridge; echo "ended $?" >&2; } | head -1']])
    assert.equal(0, status)
    assert.matches('^2\n', text)
    assert.matches('ridge: standard output: ', text)
    assert.matches('ended 1\n$', text)
  end)
end)
