-- SPDX-License-Identifier: MIT
-- A kernel in a process of its own, asked over its sockets.

local canonical = require 'ridge.store.canonical'
local client = dofile 'tests/lua/kernel/client.lua'
local folders = dofile 'tests/lua/store/folder.lua'

local here = io.popen 'pwd':read '*l'
client.here = here

if not client.found() then
  describe('a kernel', function()
    it('is asked over its sockets', function() pending 'no libzmq.so.5' end)
  end)
  return
end

local function types(published)
  local list = {}
  for i, message in ipairs(published) do list[i] = message.type end
  return table.concat(list, ' ')
end

describe('a kernel', function()
  local k

  setup(function() k = client.start() end)
  teardown(function() k:close() end)

  it('says who it is, and that it is busy and idle', function()
    local reply, id = k:ask('kernel_info_request', {})
    assert.equal('ok', reply.status)
    assert.equal('ridge', reply.implementation)
    assert.equal('lua', reply.language_info.name)
    local busy = k:receive 'iopub'
    assert.same({ 'status', 'busy', id }, { busy.type, busy.content.execution_state,
      busy.parent.msg_id })
    assert.same({ 'status' }, busy.to)
    assert.same({}, { unpack(k:published(id)) })
    -- the same on the other channel
    assert.equal('ok', k:ask('kernel_info_request', {}, 'control').status)
    k:drop()
  end)

  it('shows the value of a cell, and what it prints in the place where it does', function()
    assert.equal('error', k:run('print "one"; 6 * 7').status) -- statements, or an expression
    local reply, out = k:run '6 * 7'
    assert.equal('ok', reply.status)
    assert.equal('execute_input execute_result', types(out))
    assert.equal('42', out[2].content.data['text/plain'])
    assert.equal(reply.execution_count, out[2].content.execution_count)
    assert.equal(reply.execution_count, out[1].content.execution_count)
    out = select(2, k:run 'local part = 1\npart + 41')
    assert.equal('42', out[2].content.data['text/plain'])
    out = select(2, k:run 'do return end\n1')
    assert.equal('execute_input', types(out))
    out = select(2, k:run '_ + 1, "x"')
    assert.equal("43\n'x'", out[2].content.data['text/plain'])
    reply, out = k:run [[
      print 'a'
      coroutine.wrap(function() print 'b' end)()
      io.stderr:write 'c\n'
      os.execute 'echo d'
      io.write 'e']]
    assert.same({ 'ok', 'a\nb\nd\ne', 'c\n' }, { reply.status, out.stdout, out.stderr })
    assert.equal('execute_input', out[1].type)
    reply, out = k:run 'x = 1; -- nothing'
    assert.equal('execute_input', types(out))
    local count = reply.execution_count
    out = select(2, k:run('print "s"', { silent = true }))
    assert.same({ 'stream', 's\n' }, { types(out), out.stdout })
    assert.equal('', types(select(2, k:run('5', { silent = true }))))
    assert.equal('', types(select(2, k:run("error 'no'", { silent = true }))))
    reply = k:run('1', { store_history = false })
    assert.equal('ok', reply.status)
    assert.equal(count + 1, k:run('1').execution_count)
  end)

  it('shows figures as pictures, in turn with what is printed', function()
    local _, out = k:run [[
      local fig = ridge.memory.timeline(function() return ridge.ones(9):sum() end):plot()
      print 'before'
      fig:show()
      print 'behind']]
    assert.equal('execute_input stream display_data stream', types(out))
    assert.equal('before\nbehind\n', out.stdout)
    assert.equal('behind\n', out[4].content.text)
    local data = out[3].content
    assert.equal('iVBORw0KGgo', data.data['image/png']:sub(1, 11))
    assert.is_number(data.metadata['image/png'].width)
    assert.matches('^figure ', data.data['text/plain'])
    -- and where whoever publishes it is behind
    _, out = k:run "io.write(('x'):rep(2^20)) fig:show() print 'behind'"
    assert.same({ 'display_data', 'behind\n' }, { out[#out - 1].type, out[#out].content.text })
    _, out = k:run 'fig'
    assert.equal('iVBORw0KGgo', out[2].content.data['image/png']:sub(1, 11))
    _, out = k:run '%plot fig'
    assert.equal('execute_input execute_result', types(out))
    assert.truthy(out[2].content.data['image/png'])
  end)

  it('takes away what a cell has shown, in turn with what is printed', function()
    local _, out = k:run "print 'old' ridge.clear_output(true) print 'new' ridge.clear_output()"
    assert.equal('execute_input stream clear_output stream clear_output', types(out))
    assert.same({ 'old\n', true, 'new\n', false }, { out[2].content.text, out[3].content.wait,
      out[4].content.text, out[5].content.wait })
    assert.equal('error', k:run('ridge.clear_output(1)').status)
    _, out = k:run('ridge.clear_output()', { silent = true })
    assert.equal('', types(out))
  end)

  it('answers a cell that takes all memory, and goes on', function()
    local own = client.start()
    local _, out = own:run "for l in io.lines '/proc/self/limits' do print(l) end"
    local soft = tonumber(out.stdout:match 'Max data size%s+(%d+)')
    assert.is_true(soft ~= nil and soft > 2 ^ 28, out.stdout) -- no cell can take more than there is
    local status = os.execute(('prlimit --pid %d --data=1000000000:'):format(own.pid))
    assert.equal(0, status)
    own:run 'jit.off()' -- LuaJIT of Debian 12 may crash where memory ends while it compiles
    for _, code in ipairs { "local t = {} while true do t[#t + 1] = ('x'):rep(2^20) .. #t end",
        "local s = 'x' while true do s = s .. s end",
        'local t = {} while true do t[#t + 1] = ridge.ones(2^20) end' } do
      local reply = own:run(code)
      assert.equal('error', reply.status)
      assert.matches('memory', reply.evalue)
      _, out = own:run 'print(1 + 1)'
      assert.equal('2\n', out.stdout)
    end
    own:close()
  end)

  it('shows values that have a page as a page', function()
    local value = "setmetatable({}, require('ridge.show.value').class('it', "
    local _, out = k:run(value .. "{ box = function() return '<b> & c' end }))")
    local data = out[2].content.data
    assert.same({ '<b> & c', '<pre>&lt;b&gt; &amp; c</pre>' }, { data['text/plain'],
      data['text/html'] })
    _, out = k:run(value .. "{ box = function() return 'x' end, "
      .. "png = function() return 'p' end }))")
    data = out[2].content.data
    assert.equal('cA==', data['image/png'])
    assert.matches('^<pre>x</pre><img alt="" src="data:image/png;base64,cA==">$', data['text/html'])
    _, out = k:run(value .. "{ box = function() error 'no' end, html = error, png = error }))")
    assert.matches('its __box raises: ', out[2].content.data['text/plain'])
  end)

  it('says what is wrong, and at which line of the cell', function()
    local reply, out = k:run 'function f()\n  error "deep"\nend\nf()'
    local n = reply.execution_count
    assert.same({ 'error', 'deep' }, { reply.status, reply.evalue })
    assert.same({ 'error: deep', ('   at [%d]:2  error "deep"'):format(n),
      ('   from [%d]:4  f()'):format(n) }, { unpack(reply.traceback) })
    assert.equal('execute_input error', types(out))
    assert.same(reply.traceback, out[2].content.traceback)
    reply = k:run 'x = {'
    assert.matches("near '<eof>'", reply.evalue)
    reply = k:run 'ridge.ones(2, 3):matmul(ridge.ones(2, 3))'
    assert.equal('error', reply.status)
    assert.matches(('at %%[%d%%]:1'):format(n + 2), reply.traceback[2])
    for _, code in ipairs { 'error()', 'error {}', 'error(nil)', "error 'a\\255'",
        "error(setmetatable({}, { __tostring = function() error 'x' end }))" } do
      assert.equal('error', k:run(code).status)
    end
    assert.equal('ok', k:run('1').status)
  end)

  it('prints megabytes and any bytes', function()
    local _, out = k:run "for i = 1, 100000 do print(i) end io.write(('€'):rep(2^20))"
    local n = 0
    for line in out.stdout:gmatch '(%d+)\n' do
      n = n + 1
      assert(tonumber(line) == n)
    end
    assert.equal(100000, n)
    assert.is_true(('€'):rep(2 ^ 20) == out.stdout:match '€.*') -- of three bytes, cut anywhere
    _, out = k:run "io.write 'a\\255\\0b\\195'"
    assert.equal('a\239\191\189\0b\239\191\189', out.stdout)
    local odd = "setmetatable({}, { __tostring = function() return '\\255' end })"
    assert.equal('ok', k:run(odd).status)
  end)

  it('answers heartbeats and interrupts while it computes', function()
    local loops = { 'while true do end',
      'while true do pcall(function() while true do end end) end',
      'local x = ridge.ones(400, 400) while true do x:matmul(x) end' }
    for i, loop in ipairs(loops) do
      local id = k:send('shell', 'execute_request', { code = 'print "on"\n' .. loop })
      repeat until k:receive('iopub').type == 'stream'
      k:raw('beat', { 'beat' })
      assert.is_nil(k:receive('shell', 10))
      repeat until require('ridge.kernel.zmq').poll({ k.beat }, -1)
      assert.same({ 'beat' }, k.beat:receive())
      if i == 2 then
        folders.run('kill -INT ' .. k.pid)
      else
        assert.equal('ok', k:ask('interrupt_request', {}, 'control').status)
      end
      local reply = k:receive 'shell'
      assert.same({ id, 'error', 'interrupted' }, { reply.parent.msg_id, reply.content.status,
        reply.content.ename })
      k:published(id)
    end
    -- while nothing runs it is nothing
    for _ = 1, 4 do
      folders.run('kill -INT ' .. k.pid)
      k:ask('interrupt_request', {}, 'control')
    end
    assert.equal('ok', k:run('1').status)
    -- programs that the cell waits for end, too
    local id = k:send('shell', 'execute_request', { code = "print 'on' os.execute 'sleep 1000'" })
    repeat until k:receive('iopub').type == 'stream'
    k:ask('interrupt_request', {}, 'control')
    assert.equal(id, k:receive('shell').parent.msg_id)
    k:drop()
  end)

  it('asks for input, and not where nobody can answer', function()
    local content = { code = "a, b = io.read('*l', '*n') c = io.stdin:read(2)", allow_stdin = true }
    local id = k:send('shell', 'execute_request', content)
    for _, answer in ipairs { 'a line', '7 x', 'y' } do
      if answer == 'y' then break end -- two bytes are left of the line before
      local request = k:receive 'stdin'
      assert.same({ 'input_request', id }, { request.type, request.parent.msg_id })
      k:send('stdin', 'input_reply', { status = 'ok', value = answer })
    end
    assert.equal('ok', k:receive('shell').content.status)
    k:published(id)
    local _, out = k:run 'a, b, c'
    assert.equal("'a line'\n7\n' x'", out[2].content.data['text/plain'])
    assert.matches('nobody who could be asked', k:run("io.read '*a' io.read()").evalue)
    assert.matches("'%*x' is no format", k:run("io.read '*x'", { allow_stdin = true }).evalue)
    -- a press of Ctrl-C ends the question
    id = k:send('shell', 'execute_request', { code = 'io.read()', allow_stdin = true })
    assert.equal('input_request', k:receive('stdin').type)
    k:ask('interrupt_request', {}, 'control')
    assert.equal('interrupted', k:receive('shell').content.ename)
    k:send('stdin', 'input_reply', { status = 'ok', value = 'too late' })
    k:published(id)
    k:drop()
    assert.equal('ok', k:run('1').status)
  end)

  it('does not run what was sent before a cell failed', function()
    local first = k:send('shell', 'execute_request', { code = "os.execute 'sleep 0.3' error 'no'" })
    local second = k:send('shell', 'execute_request', { code = 'ran = true' })
    local info = k:send('shell', 'kernel_info_request', {})
    local got = {}
    for _ = 1, 3 do
      local reply = k:receive 'shell'
      got[reply.parent.msg_id] = reply.content.status
    end
    assert.same({ [first] = 'error', [second] = 'aborted', [info] = 'ok' }, got)
    for _ = 1, 20 do -- what is sent behind the answer runs
      k:run("error 'no'")
      assert.equal('ok', k:run('1').status)
    end
    assert.matches("undeclared variable 'ran'", k:run('ran').evalue)
    k:send('shell', 'execute_request', { code = "os.execute 'sleep 0.3' error 'no'",
      stop_on_error = false })
    k:send('shell', 'execute_request', { code = 'ran = true' })
    assert.equal('error', k:receive('shell').content.status)
    assert.equal('ok', k:receive('shell').content.status)
    k:drop()
  end)

  it('completes, explains and says what is unfinished, counting characters', function()
    local function complete(code, at)
      return k:ask('complete_request', { code = code, cursor_pos = at })
    end
    k:run 'long_name = ridge.ones(2)'
    local reply = complete("s = 'é' .. long_n", 17)
    assert.same({ 'long_name' }, { unpack(reply.matches) })
    assert.same({ 11, 17 }, { reply.cursor_start, reply.cursor_end })
    assert.same({ 'rand' }, { complete('ridge.rand', 9).matches[1] })
    assert.same({ '_' }, { k:ask('complete_request', { code = 'é', cursor_pos = 99 }).matches[1]
      or '_' })
    assert.same({ 'time' }, { complete('%tim', 4).matches[1] })
    assert.same({}, { unpack(complete('', 0).matches) })
    -- places that are none are the nearest one that is
    for at, want in pairs { [-5] = 0, [3.5] = 3, [99] = 9 } do
      reply = complete('ridge.ran', at)
      assert.equal(want, reply.cursor_end, at)
      assert.equal(want == 9 and 6 or 0, reply.cursor_start, at)
    end

    local function inspect(code, at)
      local answer = k:ask('inspect_request', { code = code, cursor_pos = at, detail_level = 0 })
      return answer.found and answer.data['text/plain']
    end
    assert.matches('^ridge%.randn%(', inspect('x = ridge.randn(2, 3)', 12))
    assert.matches('^ridge%.randn%(', inspect('x = ridge.randn((2), 3', 21))
    assert.matches('tensor f32', inspect('long_name', 3))
    assert.is_false(inspect('nothing_of_this', 3))
    assert.is_false(inspect('', 0))
    reply = k:ask('inspect_request', { code = 'ridge.randn', cursor_pos = 11, detail_level = 1 })
    assert.matches('function', reply.data['text/plain'])

    for code, status in pairs { ['1'] = 'complete', ['for i = 1, 3 do'] = 'incomplete',
        ['f('] = 'incomplete', ['x = = 1'] = 'invalid', ['%who'] = 'complete', ['!ls'] = 'complete',
        ['%time f('] = 'incomplete', ['?x'] = 'complete', [''] = 'complete',
        ['local x = 1\nx'] = 'complete' } do
      assert.same({ code, status }, { code, k:ask('is_complete_request', { code = code }).status })
    end
    k:drop()
  end)

  it('keeps what was typed, and knows no widgets', function()
    k:run '"first of two"'
    local n = k:run('"second of two"').execution_count
    local function history(asked)
      local rows = {}
      for i, row in ipairs(k:ask('history_request', asked).history) do rows[i] = row[3] end
      return rows
    end
    assert.same({ '"first of two"', '"second of two"' }, history { hist_access_type = 'tail',
      n = 2 })
    assert.same({ '"first of two"' }, history { hist_access_type = 'range', session = 0,
      start = n - 1, stop = n })
    assert.same({ '"second of two"' }, history { hist_access_type = 'search', n = 1,
      pattern = '*of t?o*' })
    assert.same({}, history { hist_access_type = 'search', n = 1, pattern = '*of t?wo*' })
    assert.same({ '"second of two"' }, history { hist_access_type = 'tail', n = 1.5 })
    assert.same({}, history { hist_access_type = 'tail', n = -1 })
    k:run '"second of two"'
    for unique, times in pairs { [true] = 1, [false] = 2 } do
      assert.equal(times, #history { hist_access_type = 'search', pattern = '*second of*',
        unique = unique })
    end
    local row = k:ask('history_request', { hist_access_type = 'tail', n = 1, output = true })
    assert.equal('"second of two"', row.history[1][3][1])
    assert.same({}, k:ask('comm_info_request', {}).comms)
    local id = k:send('shell', 'comm_open', { comm_id = 'c', target_name = 't', data = {} })
    local out = k:published(id)
    assert.same({ 'comm_close', 'c' }, { out[1].type, out[1].content.comm_id })
    local reply, _, message = k:ask('dance_request', {})
    assert.same({ 'error', "this kernel knows no 'dance_request'", 'dance_reply' },
      { reply.status, reply.evalue, message.type })
    assert.same('error', k:ask('error_of_request', {}).status)
    k:drop()
  end)

  it('answers questions, and evaluates what a front end wants to know', function()
    local reply = k:run '?ridge.randn'
    assert.matches('^ridge%.randn%(', reply.payload[1].data['text/plain'])
    assert.equal('page', reply.payload[1].source)
    assert.matches("no help for 'no_such", k:run('?no_such_name').payload[1].data['text/plain'])
    assert.equal('ask_exit', k:run('quit').payload[1].source)
    reply = k:run('v = 3', { user_expressions = { a = 'v + 1', b = 'nothing_there', c = 'x =' } })
    assert.equal('4', reply.user_expressions.a.data['text/plain'])
    assert.same({ 'error', 'error' }, { reply.user_expressions.b.status,
      reply.user_expressions.c.status })
    assert.matches('nothing_there', reply.user_expressions.b.evalue, 1, true)
    assert.is_nil(reply.user_expressions.b.evalue:find('table: ', 1, true))
    assert.matches("unexpected symbol near '<eof>'", reply.user_expressions.c.evalue, 1, true)
  end)

  it('drops what is damaged, says so, and goes on', function()
    local log = #folders.get(k.log)
    local good = k:frames('execute_request', { code = 'damaged = true' })
    local function changed(i, text)
      local frames = { unpack(good) }
      frames[i] = text
      return frames
    end
    local function signed(header, content)
      return require('ridge.kernel.wire').frames({ to = {}, header = header, parent = '{}',
        metadata = '{}', content = content }, k.sign)
    end
    local header = good[3]
    local cases = {
      { changed(2, ('0'):rep(64)), 'a wrong signature' },
      { changed(2, ''), 'a wrong signature' },
      { changed(6, good[6] .. ' '), 'a wrong signature' },
      { { unpack(good, 1, 5) }, '4 frames behind the mark' },
      { { 'x' }, '0 frames behind the mark' },
      { { '' }, '0 frames behind the mark' },
      { signed('{', '{}'), 'no JSON object' },
      { signed(header, '{"code": '), 'no JSON object' },
      { signed(header, '[]'), 'no JSON object' },
      { signed(header, 'null'), 'no JSON object' },
      { signed(header, ('['):rep(300000)), 'no JSON object' },
      { signed('{}', '{}'), 'without msg_type' },
      { signed('{"msg_type": 1, "msg_id": 2}', '{}'), 'without msg_type' },
    }
    for _, case in ipairs(cases) do
      k:raw('shell', case[1])
      k:raw('control', case[1])
      k:raw('stdin', case[1])
    end
    -- contents of other kinds than they should be
    for _, content in ipairs { '{}', '{"code": 1}', '{"code": null, "cursor_pos": "x"}',
        '{"code": "1", "cursor_pos": -5, "user_expressions": 3}',
        '{"code": "\\ud800 = 1", "user_expressions": {"\\ud800": "1", "": "\\ud800"}}',
        '{"code": "a", "cursor_pos": 1e300, "hist_access_type": [], "n": -3}' } do
      for _, kind in ipairs { 'execute', 'complete', 'inspect', 'is_complete', 'history',
          'comm_info' } do
        k:raw('shell', signed(canonical.encode { msg_id = 'd', msg_type = kind .. '_request',
          session = 's' }, content))
        assert.equal(kind .. '_reply', k:receive('shell').type)
      end
    end
    k:drop()
    local _, out = k:run 'damaged'
    assert.matches("undeclared variable 'damaged'", out[2].content.evalue)
    local text = folders.get(k.log):sub(log + 1)
    for _, case in ipairs(cases) do
      for _, channel in ipairs { 'shell', 'control', 'stdin' } do
        assert.truthy(text:find(('a message of %s is dropped: '):format(channel), 1, true))
      end
      assert.truthy(text:find(case[2], 1, true), case[2])
    end
    local _, n = text:gsub('is dropped', '')
    assert.equal(3 * #cases, n)
    assert.falsy(text:find 'stack traceback')
  end)
end)

describe('the life of a kernel', function()
  local k

  before_each(function() k = client.start() end)
  after_each(function() k:close() end)

  it('ends when it is told to, also while it computes', function()
    local reply = k:ask('shutdown_request', { restart = true }, 'control')
    assert.same({ 'ok', true }, { reply.status, reply.restart })
    k:wait()
    assert.equal('', folders.get(k.log))
    k:close()
    k = client.start()
    k:send('shell', 'execute_request', { code = 'print "on" while true do end' })
    repeat until k:receive('iopub').type == 'stream'
    assert.equal('ok', k:ask('shutdown_request', { restart = false }, 'control').status)
    k:wait()
  end)

  it('ends with os.exit, and nothing that was printed is lost', function()
    local id = k:send('shell', 'execute_request', { code = 'io.write(("x"):rep(2^20)) os.exit(3)' })
    assert.equal(2 ^ 20, #k:published(id).stdout)
    k:wait()
  end)

  it('goes when whoever started it is gone', function()
    k:close()
    k = client.start { has_parent = true }
    assert.equal('ok', k:run('1').status)
    k:send('shell', 'execute_request', { code = 'print "on" while true do end' })
    repeat until k:receive('iopub').type == 'stream'
    folders.run('kill -9 ' .. k.parent)
    k:wait()
    assert.equal('ridge kernel: who started this kernel is gone\n', folders.get(k.log))
  end)

  it('outlives pipes that nobody reads', function()
    local reply = k:run [[
      local pipe = io.popen('exit 0', 'w')
      os.execute 'sleep 0.1'
      pipe:write(('x'):rep(2^20))
      pipe:close()]]
    assert.equal('ok', reply.status)
    assert.equal('ok', k:run('1').status)
  end)

  it('outlives a standard output that is closed', function()
    assert.equal('ok', k:run('io.stdout:close()').status)
    assert.equal('ok', k:run('1').status)
    assert.equal('error', k:run('print "x"; error "e"').status)
  end)
end)
