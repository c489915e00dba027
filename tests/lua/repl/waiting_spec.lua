-- SPDX-License-Identifier: MIT
-- Ctrl-C ends what waits for others: for a lock, for whoever holds a database, for the other end of
-- a FIFO.  Nothing is lost, and what waited works afterwards.
local lock = require 'ridge.store.lock'
local program = require 'tests.lua.repl.program'
local sqlite = require 'ridge.store.sqlite'
local store = require 'ridge.store'

local home, term

before_each(function() home = program.folder() end)
after_each(function()
  if term then term:stop() end
  term = nil
  program.remove(home)
end)

-- What opens the database of the test.
local OPEN = [[db = require('ridge.store.sqlite').open('%s/r.db', 'write')]]

describe('Ctrl-C at the prompt', function()
  --- Run what waits, press, and see the prompt again.
  local function press_in(code)
    term:send(('io.write("run", "ning\\n") io.flush() %s\r'):format(code))
    term:expect 'running\n'
    os.execute 'sleep 0.2'
    term:send '\3'
    term:expect 'interrupted'
    term:expect '>> '
  end

  local function expect_value(code, wanted)
    term:send(code .. '\r')
    term:expect(('\n%s\n'):format(wanted))
    term:expect '>> '
  end

  before_each(function()
    store.open(home .. '/r.db', 'write'):close()
    term = program.prompt(home, { RIDGE_LOCKS = home })
    term:expect '>> '
    term:send(OPEN:format(home) .. '\r')
    term:expect '>> '
  end)

  it('ends the wait for a writer, who goes on', function()
    local other = lock.open(home .. '/r.db.lock')
    other:take()
    press_in 'db:transaction(function() end)'
    press_in(("require('ridge.store').open('%s/r.db', 'write')"):format(home))
    other:close()
    expect_value('db:transaction(function() return 7 end)', 7)
  end)

  it('ends the wait of closing, which closes', function()
    local other = lock.open(home .. '/r.db.lock')
    other:take()
    press_in 'db:close()'
    expect_value('db.handle', 'nil')
    other:close()
  end)

  it('ends the wait for a program that knows SQLite alone', function()
    local other = sqlite.open(home .. '/r.db', 'write')
    other:exec 'BEGIN IMMEDIATE'
    press_in 'db:transaction(function() end)'
    other:exec 'ROLLBACK'
    other:close()
    expect_value('db:transaction(function() return 7 end)', 7)
  end)

  it('ends the wait for a lease, and lets others have its gate', function()
    local other = lock.open_shared(home .. '/cpu')
    other:take()
    term:send 'lease = require("ridge.sweep.lease").open "cpu"\r'
    term:expect '>> '
    press_in 'lease:exclusive()'
    local gate = lock.open_shared(home .. '/cpu.gate')
    assert.is_true(gate:try())
    gate:close()
    other:close()
    expect_value('lease:try_shared()', 'true')
  end)

  it('ends the wait for whoever reads or writes a FIFO', function()
    assert.equal(0, os.execute(('mkfifo %s/fifo'):format(home)))
    press_in(('ridge.save("%s/fifo", { x = ridge.ones(3) })'):format(home))
    press_in(('ridge.load "%s/fifo"'):format(home))
    press_in(('ridge.data.csv "%s/fifo"'):format(home))
    assert.equal(0, os.execute(('test -p %s/fifo'):format(home)))
  end)

  it('ends the wait for a folder of FIFOs', function()
    for i = 1, 5 do
      assert.equal(0, os.execute(('mkfifo %s/data_batch_%d.bin'):format(home, i)))
    end
    press_in(('ridge.data.cifar "%s"'):format(home))
    for _, name in ipairs { 'train-images-idx3-ubyte', 'train-images-idx3-ubyte.gz',
        't10k-images-idx3-ubyte', 't10k-images-idx3-ubyte.gz' } do
      assert.equal(0, os.execute(('mkfifo %s/%s'):format(home, name)))
    end
    press_in(('ridge.data.mnist "%s"'):format(home))
  end)

  it('ends a question in which one function takes hours; the next one is answered', function()
    press_in(([[ridge.sql("SELECT instr(hex(zeroblob(8000000)), hex(zeroblob(3000000)) || '1')",]]
      .. ' { db = "%s/r.db" })'):format(home))
    expect_value(('ridge.sql("SELECT 7 AS n", { db = "%s/r.db" })[1].n'):format(home), 7)
    assert.equal(0, term:leave()) -- while SQLite still looks for it
  end)

  it('ends a wait behind a recipe that ran on the same line', function()
    -- a recipe's first press lets what waits be; its caller's does not
    assert.equal(0, os.execute(('mkfifo %s/fifo'):format(home)))
    press_in(('require("ridge.host").call("recipe", function() end) ridge.load "%s/fifo"')
      :format(home))
  end)

  it('ends a row of a loader that takes long, and the session ends at once too', function()
    for workers = 0, 1 do
      press_in(('for x in ridge.data.Loader({ ridge.ones(4, 2) }, { workers = %d, transform = '
        .. 'function() for i = 1, 1e15 do end end }):each() do end'):format(workers))
    end
    expect_value('ridge.ones(3):sum():item()', 3)
    assert.equal(0, term:leave())
  end)
end)

describe('The second Ctrl-C in a recipe', function()
  local function start(code)
    local path = home .. '/recipe.lua'
    local file = io.open(path, 'w')
    file:write('local ridge = require "ridge"\n', 'io.write "running\\n" io.flush()\n', code)
    file:close()
    term = program.prompt(home, { RIDGE_LOCKS = home }, { path })
    term:expect 'running\n'
    os.execute 'sleep 0.2'
    term:send '\3'
    term:expect 'to stop at once\n'
    os.execute 'sleep 0.5' -- back in the wait: a press before that ends nothing, only one more does
    term:send '\3'
    term:expect 'interrupted'
    assert.equal(130, term:wait())
  end

  it('ends the wait for a writer', function()
    store.open(home .. '/r.db', 'write'):close()
    local other = lock.open(home .. '/r.db.lock')
    other:take()
    start('local ' .. OPEN:format(home) .. ' db:transaction(function() end)')
    other:close()
  end)

  it('ends the wait for the other end of a FIFO', function()
    assert.equal(0, os.execute(('mkfifo %s/fifo'):format(home)))
    start(('ridge.load "%s/fifo"'):format(home))
    start(('ridge.save("%s/fifo", { x = ridge.ones(3) })'):format(home))
  end)
end)

it('rows of a FIFO are refused without a wait', function()
  assert.equal(0, os.execute(('mkfifo %s/fifo'):format(home)))
  local ok, err = pcall(require('ridge.data').rows, home .. '/fifo', { shape = { 2 } })
  assert.is_false(ok)
  assert.truthy(tostring(err):find('is no file', 1, true), tostring(err))
end)
