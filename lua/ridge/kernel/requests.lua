-- SPDX-License-Identifier: MIT
--- What each request is answered with. What a cell means, how a value shows, what TAB offers and
--- where an error is: all that is the prompt's.

local canonical = require 'ridge.store.canonical'
local bundle = require 'ridge.kernel.bundle'
local command = require 'ridge.repl.command'
local complete = require 'ridge.repl.complete'
local help = require 'ridge.repl.help'
local host = require 'ridge.host'
local inspect = require 'ridge.repl.inspect'
local parse = require 'ridge.repl.parse'
local place = require 'ridge.kernel.place'
local question = require 'ridge.repl.question'
local report = require 'ridge.repl.report'
local source = require 'ridge.repl.source'
local utf8 = require 'ridge.utf8'
local wire = require 'ridge.kernel.wire'

local M = {}
local list = canonical.list

--- A text of the content; what is not there is ''. Halves of pairs, which JSON can write, are no
--- UTF-8.
local function text(content, name)
  return type(content[name]) == 'string' and utf8.clean(content[name]) or ''
end

local function number(content, name, default)
  return type(content[name]) == 'number' and content[name] or default
end

-- A whole number from 0 on; what a place is counted by.
local function whole(content, name, default)
  return math.max(0, math.floor(number(content, name, default)))
end

-- What went wrong, as a front end takes it; nil: a press of Ctrl-C.
local function error_of(failure)
  if not failure then
    return { ename = 'interrupted', evalue = '', traceback = list { 'interrupted' } }
  end
  local lines = list {}
  for line in (report.text(failure) .. '\n'):gmatch '([^\n]*)\n' do
    lines[#lines + 1] = utf8.clean(line)
  end
  return { ename = utf8.clean(tostring(failure.code or 'error')),
    evalue = utf8.clean(failure.message), traceback = lines }
end
M.error_of = error_of

-- -- Execution -------------------------------------------------------------------------------

local function page(found)
  return list { { source = 'page', start = 0, data = { ['text/plain'] = utf8.clean(found) } } }
end

-- Each expression that a front end wants to know with the cell, without a trace in the session.
local function user_expressions(kernel, asked)
  local out = {}
  for name, code in pairs(asked) do
    local outcome
    local parsed = parse.compile(tostring(code), '=expression')
    if parsed.kind == 'expression' then
      local ok, failure = kernel.session.call('session', function()
        local _, values = kernel.session:values(parsed)
        local data, metadata = bundle.of(values[1])
        outcome = { status = 'ok', data = data, metadata = metadata }
      end, report.catch)
      if not ok and type(failure) ~= 'table' then failure = report.syntax(tostring(failure)) end
      outcome = ok and outcome or error_of(failure)
    else
      outcome = error_of(report.syntax(parsed.message or 'no expression'))
    end
    outcome.status = outcome.status or 'error'
    out[utf8.clean(tostring(name))] = outcome
  end
  return out
end

-- What a cell says that is no Lua; nil of all else.
local function word(kernel, code)
  local env = kernel.session.env
  local said = question.word(code, env)
  if said == 'help' then code = '?' end
  if said and said ~= 'help' then
    return list { { source = 'ask_exit', keepkernel = false } }
  end
  local found, reason = question.answer(code, env)
  return (found or reason) and page(found or reason) or nil
end

function M.execute_request(kernel, content)
  local code = text(content, 'code')
  local silent = content.silent == true
  local counts = not silent and content.store_history ~= false
  local session = kernel.session
  local n = kernel.count + 1
  if counts then kernel.count = n end
  if not silent then
    kernel:publish('execute_input', { code = code, execution_count = n })
  end
  kernel.silent, kernel.failure, kernel.allow_stdin = silent, nil, content.allow_stdin == true
  kernel:settle()
  local payload = word(kernel, code)
  local outcome = 'done'
  if not payload then
    session.count = n - 1 -- the chunk is called [n]
    outcome = session:run(code)
    if outcome == 'incomplete' then
      session:fail_incomplete(code)
      outcome = 'failed'
    end
  end
  io.stdout:flush()
  kernel.allow_stdin = false
  if counts then kernel.inputs[n] = code end
  if outcome == 'done' then
    return { status = 'ok', execution_count = n, payload = payload or list {},
      user_expressions = user_expressions(kernel, type(content.user_expressions) == 'table'
        and content.user_expressions or {}) }
  end
  local wrong = error_of(kernel.failure)
  if not silent then kernel:publish('error', wrong) end
  wrong.status, wrong.execution_count = 'error', n
  wrong.user_expressions, wrong.payload = {}, list {}
  if content.stop_on_error ~= false then kernel:abort() end
  return wrong
end

-- -- What stands at the cursor ---------------------------------------------------------------

function M.complete_request(kernel, content)
  local code = text(content, 'code')
  local at = whole(content, 'cursor_pos', place.characters(code))
  local before = place.before(code, at)
  local matches = list {}
  local found, prefix = {}, ''
  if before:find '%S' then
    found, prefix = complete.candidates(before:gsub('^%s*%?+', ''), kernel.session.env)
  end
  for i, each in ipairs(found) do matches[i] = utf8.clean(each.name) end
  at = math.min(at, place.characters(code))
  return { status = 'ok', matches = matches, cursor_end = at, metadata = {},
    cursor_start = at - place.characters(prefix or '') }
end

function M.inspect_request(kernel, content)
  local code = text(content, 'code')
  local before = place.before(code, whole(content, 'cursor_pos', place.characters(code)))
  local name = place.name(before, code:sub(#before + 1))
  local env, found = kernel.session.env, nil
  if name and number(content, 'detail_level', 0) > 0 then found = source.lookup(name, env) end
  if name and not found then
    found = help.lookup(name, env)
    local value = rawget(env, name)
    if value ~= nil then
      local said = found and not found:find '^%S+ is a %l+$' and '\n\n' .. found or ''
      found = inspect.value(value) .. said
    end
  end
  return { status = 'ok', found = found ~= nil, metadata = {},
    data = found and { ['text/plain'] = utf8.clean(found) } or {} }
end

function M.is_complete_request(kernel, content)
  local code = text(content, 'code')
  local request = command.read(code)
  if question.answer(code, kernel.session.env) or request and request.takes ~= 'code' then
    return { status = 'complete' }
  end
  local parsed = parse.compile(request and request.rest or code, '=cell', true)
  if parsed.kind == 'error' then return { status = 'invalid' } end
  if parsed.kind == 'incomplete' then return { status = 'incomplete', indent = '  ' } end
  return { status = 'complete' }
end

-- -- What was typed --------------------------------------------------------------------------

-- A pattern of the shell, as the whole text.
local function globbed(pattern)
  return '^' .. pattern:gsub('[%^%$%(%)%%%.%[%]%+%-]', '%%%0'):gsub('%*', '.*'):gsub('%?', '.')
    .. '$'
end

function M.history_request(kernel, content)
  local rows = {}
  local kind = content.hist_access_type
  local from, to = 1, math.huge
  if kind == 'range' then
    local session = number(content, 'session', 0)
    from, to = number(content, 'start', 1), number(content, 'stop', math.huge) - 1
    if session ~= 0 then to = 0 end -- no other one is kept
  end
  local pattern = kind == 'search' and globbed(text(content, 'pattern'))
  local seen = {}
  for n = 1, kernel.count do
    local code = kernel.inputs[n]
    if code and n >= from and n <= to and (not pattern or code:find(pattern))
        and not (content.unique == true and seen[code]) then
      seen[code] = true
      rows[#rows + 1] = list { 0, n, content.output == true and list { code, canonical.null }
        or code }
    end
  end
  local most = kind ~= 'range' and whole(content, 'n', math.huge) or math.huge
  local last = list {}
  for i = math.max(1, #rows - most + 1), #rows do last[#last + 1] = rows[i] end
  return { status = 'ok', history = last }
end

-- -- About the kernel -------------------------------------------------------------------------

function M.kernel_info_request()
  local cpu, threads, isa = host.machine()
  return {
    status = 'ok', protocol_version = wire.VERSION, implementation = 'ridge',
    implementation_version = host.version, debugger = false,
    banner = utf8.clean(('ridge %s · cpu %s, %d threads, %s · ?help'):format(host.version, cpu,
      threads, isa)),
    help_links = list {},
    language_info = { name = 'lua', version = '5.1', mimetype = 'text/x-lua',
      file_extension = '.lua', pygments_lexer = 'lua', codemirror_mode = 'lua',
      nbconvert_exporter = 'script' },
  }
end

function M.comm_info_request() return { status = 'ok', comms = {} } end

-- There is no target that could be meant.
function M.comm_open(kernel, content)
  kernel:publish('comm_close', { comm_id = text(content, 'comm_id'), data = {} })
end

function M.comm_msg() end
function M.comm_close() end

function M.shutdown_request(kernel, content)
  kernel.ends = true
  local answer = { status = 'ok', restart = content.restart == true }
  kernel:publish('shutdown_reply', answer)
  return answer
end

return M
