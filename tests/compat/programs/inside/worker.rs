// A Rust program: threads with channels and locks, a timer, and a server on a unix socket.
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

fn main() {
    let _ = fs::remove_file("worker.sock");
    let listener = UnixListener::bind("worker.sock").unwrap();
    thread::spawn(move || {
        let (reader, mut writer) = {
            let stream = listener.accept().unwrap().0;
            (stream.try_clone().unwrap(), stream)
        };
        for line in BufReader::new(reader).lines() {
            let number: u64 = line.unwrap().parse().unwrap();
            writeln!(writer, "{}", number * 2).unwrap();
        }
    });
    let mut stream = UnixStream::connect("worker.sock").unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();

    let (results, collected) = channel::<(u64, u64)>();
    let mut workers: Vec<Sender<u64>> = Vec::new();
    for _ in 0..6 {
        let (sender, receiver) = channel::<u64>();
        let results = results.clone();
        thread::spawn(move || for n in receiver { results.send((n, n * n * n)).unwrap(); });
        workers.push(sender);
    }
    let shared = Arc::new((Mutex::new(0u64), Condvar::new()));
    let other = shared.clone();
    thread::spawn(move || loop {
        thread::sleep(Duration::from_millis(2));
        *other.0.lock().unwrap() += 1;
        other.1.notify_all();
    });

    let (mut rounds, mut faults, mut last) = (0u64, 0u64, Instant::now());
    loop {
        for n in 0..60 {
            workers[n % 6].send(n as u64).unwrap();
        }
        let found: BTreeMap<u64, u64> = (0..60).map(|_| collected.recv().unwrap()).collect();
        faults += (found.len() != 60 || found.iter().any(|(n, cube)| n * n * n != *cube)) as u64;
        let before = *shared.0.lock().unwrap();
        let guard = shared.1.wait_while(shared.0.lock().unwrap(), |n| *n == before).unwrap();
        faults += (*guard <= before) as u64;
        drop(guard);
        writeln!(stream, "{}", rounds).unwrap();
        let answer: u64 = answers.next().unwrap().unwrap().parse().unwrap();
        faults += (answer != rounds * 2) as u64;
        let now = Instant::now();
        faults += (now <= last) as u64;
        last = now;
        rounds += 1;
        fs::write("new", format!("{} {} in threads of Rust\n", rounds, faults)).unwrap();
        fs::rename("new", "state").unwrap();
        thread::sleep(Duration::from_millis(10));
    }
}
