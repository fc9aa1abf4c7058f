%% A ring of 100 processes that pass a number on, a TCP server that echoes lines, and a client of it on one open
%% connection. Writes "ROUNDS FAULTS" to the file `state`, and the server's port to `port`.
-module(ring).
-export([main/0]).

main() ->
    Options = [binary, {packet, line}, {active, false}],
    {ok, Listener} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}} | Options]),
    {ok, Port} = inet:port(Listener),
    spawn_link(fun() -> accept(Listener) end),
    {ok, Connection} = gen_tcp:connect({127, 0, 0, 1}, Port, Options),
    Add = fun(_, Next) -> spawn_link(fun() -> pass(Next) end) end,
    First = lists:foldl(Add, self(), lists:seq(1, 100)),
    ok = file:write_file("port", integer_to_list(Port)),
    round(1, 0, First, Connection).

pass(Next) ->
    receive
        {number, N} -> Next ! {number, N + 1}
    end,
    pass(Next).

accept(Listener) ->
    {ok, Connection} = gen_tcp:accept(Listener),
    Server = spawn(fun() ->
        receive
            go -> echo(Connection)
        end
    end),
    ok = gen_tcp:controlling_process(Connection, Server),
    Server ! go,
    accept(Listener).

echo(Connection) ->
    case gen_tcp:recv(Connection, 0) of
        {ok, Line} ->
            ok = gen_tcp:send(Connection, Line),
            echo(Connection);
        {error, closed} ->
            ok
    end.

round(N, Faults, First, Connection) ->
    First ! {number, N},
    Around =
        receive
            {number, M} -> M
        after 60000 -> lost
        end,
    Line = iolist_to_binary([integer_to_list(N), "\n"]),
    ok = gen_tcp:send(Connection, Line),
    Now =
        case gen_tcp:recv(Connection, 0, 60000) of
            {ok, Line} when Around =:= N + 100 -> Faults;
            _ -> Faults + 1
        end,
    Text = io_lib:format("~w ~w around 100 processes and over one connection~n", [N, Now]),
    ok = file:write_file("new", Text),
    ok = file:rename("new", "state"),
    timer:sleep(5),
    round(N + 1, Now, First, Connection).
