-- SPDX-License-Identifier: MIT
--- The blocks of a page of the documentation, run as a reader would from top to bottom: commands in
--- one shell, lines behind >> in one prompt, files as they stand there.  What is printed is
--- compared with what the page shows; how many blanks stand in a row does not count.
--
--     ```console            $ a command, > its next line; below it what it prints
--     ```console status=2   of the last command, where it is not 0
--     ```console elsewhere  needs another machine or another user: not run
--     ```lua                -- NAME.lua in its first line: a file; >> in its first line: the prompt
--
-- ‹Such marks› stand for whatever is printed there, a line ... for any lines.

local folders = dofile 'tests/lua/store/folder.lua'

local M = {}

local MARK = '\30'

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- -- Finding ----------------------------------------------------------------------------------

-- The inputs of a block, each with what is shown below it.
local function steps_of(block, first, more)
  local steps = {}
  for i, line in ipairs(block.lines) do
    if line:sub(1, #first) == first then
      steps[#steps + 1] = { line = block.line + i, text = line:sub(#first + 1), shown = {} }
    elseif line:sub(1, #more) == more and #steps > 0 and #steps[#steps].shown == 0 then
      steps[#steps].text = steps[#steps].text .. '\n' .. line:sub(#more + 1)
    elseif #steps == 0 then
      error(('line %d: a block of commands begins with "%s"'):format(block.line + i, first), 0)
    else
      table.insert(steps[#steps].shown, line)
    end
  end
  return steps
end

--- The blocks of a page, in their order.
---@param text string Markdown
---@return table[] blocks each kind, line, and steps or name and lines
function M.read(text)
  local blocks, open, number = {}, nil, 0
  for line in (text .. '\n'):gmatch '(.-)\n' do
    number = number + 1
    local info = line:match '^```(.*)$'
    if info and not open then
      open = { info = info, line = number, lines = {} }
    elseif info then
      local language = open.info:match '^%l*'
      local first = open.lines[1] or ''
      if language == 'console' then
        open.kind = open.info:find 'elsewhere' and 'elsewhere' or 'console'
        open.steps = steps_of(open, '$ ', '> ')
        open.steps[#open.steps].status = tonumber(open.info:match 'status=(%d+)')
      elseif language == 'lua' and first:find '^>> ' then
        open.kind, open.steps = 'prompt', steps_of(open, '>> ', '.. ')
      elseif language == 'lua' and first:match '^%-%- ([%w_/]+%.lua)' then
        open.kind, open.name = 'file', first:match '^%-%- ([%w_/]+%.lua)'
      else
        error(('line %d: a block that nobody can run: ```%s'):format(open.line, open.info), 0)
      end
      blocks[#blocks + 1] = open
      open = nil
    elseif open then
      open.lines[#open.lines + 1] = line
    end
  end
  assert(not open, 'a block has no end')
  return blocks
end

-- -- Running ----------------------------------------------------------------------------------

--- Put an account into a folder: an empty home, and `ridge` on the path.
---@param folder string
---@param ridge string whole path of the program
---@return table account
function M.account(folder, ridge)
  os.execute(('mkdir -p %s/home %s/work %s/bin && ln -s %s %s/bin/ridge'):format(quoted(folder),
    quoted(folder), quoted(folder), quoted(ridge), quoted(folder)))
  return { folder = folder }
end

local function script_of(blocks)
  local lines, prompt = { 'set -f; set +f' }, false
  for _, block in ipairs(blocks) do
    if block.kind == 'file' then
      lines[#lines + 1] = ('cat >%s <<\\RIDGE_END\n%s\nRIDGE_END'):format(quoted(block.name),
        table.concat(block.lines, '\n'))
    end
    for _, step in ipairs(block.kind ~= 'elsewhere' and block.steps or {}) do
      lines[#lines + 1] = ("printf '%s'"):format(MARK)
      if block.kind == 'console' then
        lines[#lines + 1] = ('eval %s </dev/null 2>&1'):format(quoted(step.text))
        lines[#lines + 1] = ("printf '%s%%d' $?"):format(MARK)
      else
        if not prompt then
          lines[#lines + 1] = 'coproc AT { ridge --quiet 2>&1; }'
          prompt = true
        end
        -- what is typed, then a line that says where its output ends
        lines[#lines + 1] = ([[printf '%%s\nio.write("\\29\\n") io.flush()\n' %s >&${AT[1]}]])
          :format(quoted(step.text))
        lines[#lines + 1] = [[while IFS= read -r said <&${AT[0]}; do
  case $said in *$'\35') printf '%s' "${said%?}"; break ;; esac; printf '%s\n' "$said"; done]]
        lines[#lines + 1] = ("printf '%s0'"):format(MARK)
      end
    end
  end
  return table.concat(lines, '\n') .. '\n'
end

--- Run blocks; each step gets `printed`, a list of lines, and `ended`, a status.
---@param account table of M.account
---@param blocks table[] of M.read
---@param variables? string more of the environment: 'RIDGE_GPU=...'
function M.run(account, blocks, variables)
  local folder = account.folder
  local path = folder .. '/script'
  local file = assert(io.open(path, 'w'))
  file:write(script_of(blocks))
  file:close()
  local lua = os.getenv 'RIDGE_LUA' -- a tree to be tested, from whatever folder
  if lua == '' then lua = nil end
  if lua and not lua:find '^/' then lua = io.popen('pwd'):read '*l' .. '/' .. lua end
  local at_home = ('HOME=%s/home PATH=%s/bin:/usr/bin:/bin RIDGE_LOCKS=%s/locks'):gsub('%%s',
    (quoted(folder):gsub('%%', '%%%%')))
  local pipe = io.popen(('cd %s/work/%s && env -i %s LANG=C.UTF-8 TERM=dumb '
    .. 'OMP_WAIT_POLICY=passive %s %s bash %s'):format(quoted(folder), account.inside or '.',
    at_home, lua and 'RIDGE_LUA=' .. quoted(lua) or '', variables or '', quoted(path)))
  local text = pipe:read '*a'
  pipe:close()
  local at = 1
  for _, block in ipairs(blocks) do
    for _, step in ipairs(block.kind ~= 'elsewhere' and block.steps or {}) do
      local from, to, printed, status = text:find(MARK .. '(.-)' .. MARK .. '(%d+)', at)
      if not from then printed, status, to = text:sub(at), -1, #text end
      step.printed, step.ended, at = {}, tonumber(status), to + 1
      for line in printed:gmatch '[^\n]+' do table.insert(step.printed, line) end
    end
  end
end

-- -- Comparing --------------------------------------------------------------------------------

local function even(line)
  line = line:gsub('\226\128\175', ' '):gsub('\194\160', ' ') -- between a number and its unit
  return (line:gsub('%s+', ' '):gsub('─+', '─'):gsub('^ ', ''):gsub(' $', ''))
end

-- A shown line as a pattern.
local function pattern_of(line)
  local out, at = {}, 1
  line = even(line)
  while true do
    local from, to = line:find('‹.-›', at)
    -- blanks beside a mark are gone where nothing is printed for it
    local head, text, tail = line:sub(at, (from or 0) - 1):match '^( ?)(.-)( ?)$'
    if head ~= '' and at > 1 then head = ' ?' end
    if tail ~= '' and from then tail = ' ?' end
    out[#out + 1] = head .. text:gsub('%p', '%%%0') .. tail
    if not from then break end
    out[#out + 1] = '.-'
    at = to + 1
  end
  return '^' .. table.concat(out) .. '$'
end

-- Whether shown lines from i say what printed ones from k do.
local function agrees(shown, printed, i, k)
  if not shown[i] then return not printed[k] end
  if shown[i]:match '^%s*%.%.%.$' then
    for from = k, #printed + 1 do
      if agrees(shown, printed, i + 1, from) then return true end
    end
    return false
  end
  return printed[k] and even(printed[k]):find(pattern_of(shown[i]))
    and agrees(shown, printed, i + 1, k + 1) or false
end

--- What is wrong with a step that was run; nil if nothing is.
---@param step table
---@return string|nil sentence
function M.wrong(step)
  if step.ended ~= (step.status or 0) then
    return ('line %d: $ %s: status %d\n%s'):format(step.line, step.text, step.ended,
      table.concat(step.printed, '\n'))
  end
  local shown = {}
  for _, line in ipairs(step.shown) do
    if line:find '%S' then shown[#shown + 1] = line end
  end
  if agrees(shown, step.printed, 1, 1) then return nil end
  return ('line %d: %s\nshown:\n%s\nprinted:\n%s'):format(step.line, step.text,
    table.concat(shown, '\n'), table.concat(step.printed, '\n'))
end

--- All that is wrong with blocks that were run.
---@param blocks table[]
---@return string[] sentences
function M.all_wrong(blocks)
  local list = {}
  for _, block in ipairs(blocks) do
    for _, step in ipairs(block.kind ~= 'elsewhere' and block.steps or {}) do
      list[#list + 1] = M.wrong(step)
    end
  end
  return list
end

M.folder = folders

return M
